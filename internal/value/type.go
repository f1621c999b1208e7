package value

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is a type of values.
type Type uint8

const (
	Any    Type = iota // any value, including null
	Bool               // true or false
	Int                // a number without a fraction or exponent, of any size
	Float              // a number within the range of a 64-bit float
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

// ParseType returns the type with a name.
func ParseType(name string) (Type, error) {
	if i := slices.Index(typeNames[:], name); i >= 0 {
		return Type(i), nil
	}
	return 0, fmt.Errorf("unknown type %q, expected one of %s", name, strings.Join(typeNames[:], ", "))
}

// MarshalText returns the name of the type.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses the name of a type.
func (t *Type) UnmarshalText(text []byte) (err error) {
	*t, err = ParseType(string(text))
	return err
}

// Zero returns the zero value of the type.
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

// Of returns the narrowest type of v; Any for null.
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

// Describe returns the type of v and its beginning, for messages.
func Describe(v Value) string {
	if v == Null {
		return "null"
	}
	return Of(v).String() + " " + v.Brief(40)
}
