package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/coppice-dev/coppice/sage/types"
)

// shape is a type at run time. It makes zero values, decodes JSON and describes the type to a
// model.
//
// In JSON, an Int, Float, Bool or String is itself, Unit is null, and lists and tuples are arrays.
// A map with String keys is an object, any other map an array of pairs. A record is an object.
// None is null; Some(x) is x, or {"Some": x} if x can be null. A variant without values is its
// name; others are {"Name": x}, where x is an array if there are several values. The Floats that
// JSON lacks are "NaN", "inf" and "-inf".
type shape struct {
	kind     types.Kind
	elems    []*shape
	record   *recordKind
	variants []*variantKind
	payloads [][]*shape // types of the values of each variant
	option   bool
	name     string
}

// nullable reports whether null is the JSON of a value.
func (s *shape) nullable() bool { return s.kind == types.Unit || s.option }

// zero returns the first value of a belief without one: 0, false, "", an empty list or map, None,
// the zeros of the parts, or the first variant without values. A type that always contains itself
// has no zero.
func (s *shape) zero(depth int) Value {
	switch s.kind {
	case types.Int:
		return intValue(0)
	case types.Float:
		return floatValue(0)
	case types.Bool:
		return boolValue(false)
	case types.String:
		return textValue("")
	case types.List:
		return Value{ref: &vector{}}
	case types.Map:
		return Value{ref: &mapping{}}
	case types.Tuple:
		return Value{ref: &tuple{zeros(s.elems, depth+1)}}
	case types.Record:
		return Value{ref: &record{kind: s.record, fields: zeros(s.elems, depth+1)}}
	case types.Enum:
		if s.option {
			return none
		}
		for i, v := range s.variants {
			if v.arity == 0 {
				return v.bare
			}
			if depth < 8 {
				return Value{int64(v.tag), &variant{kind: v, elems: zeros(s.payloads[i], depth+1)}}
			}
		}
	}
	return unit
}

func zeros(shapes []*shape, depth int) []Value {
	vs := make([]Value, len(shapes))
	if depth > 16 {
		return vs
	}
	for i, s := range shapes {
		vs[i] = s.zero(depth)
	}
	return vs
}

// decode reads a value of the shape. Its errors say where which value was expected.
func (s *shape) decode(text []byte) (Value, error) {
	tree, err := parseJSON(string(text))
	if err != nil {
		return Value{}, err
	}
	return s.value(tree)
}

// value converts a result of parseJSON.
func (s *shape) value(tree any) (Value, error) {
	switch s.kind {
	case types.Int:
		if n, is := tree.(json.Number); is {
			if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
				return intValue(i), nil
			}
			if f, err := n.Float64(); err == nil && f == math.Trunc(f) && f >= intBottom && f < intTop {
				return intValue(int64(f)), nil
			}
		}
		return Value{}, mismatch("a whole number", tree)
	case types.Float:
		switch x := tree.(type) {
		case json.Number:
			if f, err := x.Float64(); err == nil {
				return floatValue(f), nil
			}
		case string:
			switch x {
			case "NaN":
				return floatValue(math.NaN()), nil
			case "inf":
				return floatValue(math.Inf(1)), nil
			case "-inf":
				return floatValue(math.Inf(-1)), nil
			}
		}
		return Value{}, mismatch("a number", tree)
	case types.Bool:
		if b, is := tree.(bool); is {
			return boolValue(b), nil
		}
		return Value{}, mismatch("true or false", tree)
	case types.String:
		if t, is := tree.(string); is {
			return textValue(t), nil
		}
		return Value{}, mismatch("a string", tree)
	case types.List:
		elems, err := s.array(tree, func(int) *shape { return s.elems[0] }, -1)
		if err != nil {
			return Value{}, err
		}
		return Value{int64(len(elems)), &vector{buf: elems, used: len(elems)}}, nil
	case types.Tuple:
		elems, err := s.array(tree, func(i int) *shape { return s.elems[i] }, len(s.elems))
		return Value{ref: &tuple{elems}}, err
	case types.Map:
		return s.mapping(tree)
	case types.Record:
		return s.object(tree)
	case types.Enum:
		return s.enum(tree)
	}
	if tree != nil {
		return Value{}, mismatch("null", tree)
	}
	return unit, nil
}

func (s *shape) array(tree any, of func(int) *shape, n int) ([]Value, error) {
	list, is := tree.([]any)
	if !is {
		return nil, mismatch("an array", tree)
	}
	if n >= 0 && len(list) != n {
		return nil, fmt.Errorf("expected an array of %d elements, found %d", n, len(list))
	}
	elems := make([]Value, len(list))
	for i, e := range list {
		var err error
		if elems[i], err = of(i).value(e); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return elems, nil
}

func (s *shape) mapping(tree any) (Value, error) {
	loader := &machine{limits: &Limits{Memory: math.MaxInt64}, quota: math.MaxInt64, stop: new(atomic.Bool)}
	x := &mapping{}
	if s.elems[0].kind != types.String {
		newPair := &shape{kind: types.Tuple, elems: s.elems}
		pairs, err := s.array(tree, func(int) *shape { return newPair }, -1)
		for _, p := range pairs {
			elems := p.ref.(*tuple).elems
			x.set(loader, elems[0], elems[1])
		}
		return Value{ref: x}, err
	}
	object, is := tree.(jsonObject)
	if !is {
		return Value{}, mismatch("an object", tree)
	}
	for _, e := range object {
		v, err := s.elems[1].value(e.value)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", strconv.Quote(e.key), err)
		}
		x.set(loader, textValue(e.key), v)
	}
	return Value{ref: x}, nil
}

func (s *shape) object(tree any) (Value, error) {
	object, is := tree.(jsonObject)
	if !is {
		return Value{}, mismatch("an object", tree)
	}
	fields := make([]Value, len(s.elems))
	for i, name := range s.record.fields {
		part, found := object.get(name)
		if !found && !s.elems[i].nullable() {
			return Value{}, fmt.Errorf("%s is missing", name)
		}
		v, err := s.elems[i].value(part)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", name, err)
		}
		fields[i] = v
	}
	return Value{ref: &record{kind: s.record, fields: fields}}, nil
}

func (s *shape) enum(tree any) (Value, error) {
	if s.option {
		inner := s.payloads[0][0]
		if tree == nil {
			return none, nil
		}
		if object, is := tree.(jsonObject); is && inner.nullable() && len(object) == 1 && object[0].key == "Some" {
			tree = object[0].value
		}
		v, err := inner.value(tree)
		return some(v), err
	}
	name, isText := tree.(string)
	object, isObject := tree.(jsonObject)
	for i, v := range s.variants {
		if isText && v.arity == 0 && v.name == name {
			return v.bare, nil
		}
		if !isObject || len(object) != 1 || object[0].key != v.name || v.arity == 0 {
			continue
		}
		if v.arity == 1 {
			elem, err := s.payloads[i][0].value(object[0].value)
			if err != nil {
				return Value{}, fmt.Errorf("%s: %w", v.name, err)
			}
			return newVariant(v, elem), nil
		}
		elems, err := s.array(object[0].value, func(k int) *shape { return s.payloads[i][k] }, v.arity)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", v.name, err)
		}
		return Value{int64(v.tag), &variant{kind: v, elems: elems}}, nil
	}
	names := make([]string, len(s.variants))
	for i, v := range s.variants {
		names[i] = v.name
	}
	return Value{}, mismatch("one of "+strings.Join(names, ", "), tree)
}

func mismatch(expected string, tree any) error {
	found := "null"
	switch x := tree.(type) {
	case bool:
		found = strconv.FormatBool(x)
	case json.Number:
		found = "the number " + x.String()
	case string:
		found = "the string " + strconv.Quote(truncated(x, 40))
	case []any:
		found = "an array"
	case jsonObject:
		found = "an object"
	}
	return fmt.Errorf("expected %s, found %s", expected, found)
}
