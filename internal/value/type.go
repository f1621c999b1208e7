package value

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is what kind of value somebody asks for.
type Type uint8

const (
	Any    Type = iota // everything, null as well
	Bool               // true or false
	Int                // a number without fraction and exponent, of any size
	Float              // a number that a float of 64 bits has room for
	String             // text
	List               // an array
	Map                // an object
)

var typeNames = [...]string{"any", "bool", "int", "float", "string", "list", "map"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("invalid(%d)", uint8(t))
}

// ParseType is the inverse of String.
func ParseType(name string) (Type, error) {
	if i := slices.Index(typeNames[:], name); i >= 0 {
		return Type(i), nil
	}
	return 0, fmt.Errorf("unknown type %q, expected one of %s", name, strings.Join(typeNames[:], ", "))
}

// MarshalText is String.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText is ParseType.
func (t *Type) UnmarshalText(text []byte) (err error) {
	*t, err = ParseType(string(text))
	return err
}

// Zero is what a belief of the type is before anybody has said anything.
func (t Type) Zero() Value {
	return [...]Value{Null, "false", "0", "0", `""`, "[]", "{}"}[t]
}

// Fits reports whether v is of the type.
func (t Type) Fits(v Value) bool {
	switch of := Of(v); {
	case v == "":
		return false
	case t == Any:
		return true
	case t == Float:
		f, err := strconv.ParseFloat(string(v), 64)
		return (of == Int || of == Float) && err == nil && !math.IsInf(f, 0)
	default:
		return t == of
	}
}

// Of is the narrowest type that v is of; Any for null.
func Of(v Value) Type {
	if v == "" {
		return Any
	}
	switch v[0] {
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '[':
		return List
	case '{':
		return Map
	case 'n':
		return Any
	}
	if strings.ContainsAny(string(v), ".eE") {
		return Float
	}
	return Int
}

// Describe says what v is, for a message that says what was expected instead.
func Describe(v Value) string {
	if v == Null {
		return "null"
	}
	return Of(v).String() + " " + v.Brief(40)
}
