package eval

import (
	"github.com/coppice-dev/coppice/sage/types"
)

// code is a compiled expression. It has a function for each representation of its value that the
// caller may want. v is always set. i is set for Int, f for Float, b for Bool and t for String, if
// the type is known.
type code struct {
	v func(*frame) Value
	i func(*frame) int64
	f func(*frame) float64
	b func(*frame) bool
	t func(*frame) string

	// alias: the value is also stored elsewhere, in a variable or an element. A caller that stores
	// it has to mark it as shared; see compiler.keep.
	alias bool
	// calls: the expression may call functions of the program. Values computed before it have to
	// be in the frame, where the memory count finds them.
	calls bool
	// constant: the value is known at compile time.
	constant bool
	// local is the slot if the expression is a plain variable of the frame, else -1.
	local int
}

func (c code) withCalls(calls bool) code {
	c.calls = c.calls || calls
	return c
}

func intCode(i func(*frame) int64) code {
	return code{i: i, v: func(f *frame) Value { return intValue(i(f)) }, local: -1}
}

func floatCode(x func(*frame) float64) code {
	return code{f: x, v: func(f *frame) Value { return floatValue(x(f)) }, local: -1}
}

func boolCode(b func(*frame) bool) code {
	return code{b: b, v: func(f *frame) Value { return boolValue(b(f)) }, local: -1}
}

func textCode(t func(*frame) string) code {
	return code{t: t, v: func(f *frame) Value { return textValue(t(f)) }, local: -1}
}

// valueCode is the code for a value of a type, with the representations that the type has.
func valueCode(k types.Kind, v func(*frame) Value) code {
	c := code{v: v, local: -1}
	switch k {
	case types.Int:
		c.i = func(f *frame) int64 { return v(f).n }
	case types.Float:
		c.f = func(f *frame) float64 { return v(f).float() }
	case types.Bool:
		c.b = func(f *frame) bool { return v(f).n != 0 }
	case types.String:
		c.t = func(f *frame) string { return v(f).ref.(string) }
	}
	return c
}

// pointerCode is the code that reads a memory location. For scalars only n is valid there.
func pointerCode(k types.Kind, at func(*frame) *Value) code {
	c := code{local: -1, alias: true}
	switch k {
	case types.Int:
		c = intCode(func(f *frame) int64 { return at(f).n })
	case types.Float:
		c = floatCode(func(f *frame) float64 { return at(f).float() })
	case types.Bool:
		c = boolCode(func(f *frame) bool { return at(f).n != 0 })
	case types.Unit, types.Never:
		c.v = func(*frame) Value { return unit }
	case types.String:
		c.t = func(f *frame) string { return at(f).ref.(string) }
		fallthrough
	default:
		c.v = func(f *frame) Value { return *at(f) }
	}
	return c
}

// constantCode is the code for a known value.
func constantCode(v Value) code {
	c := code{v: func(*frame) Value { return v }, constant: true, local: -1, alias: true}
	switch v.ref.(type) {
	case scalar:
		n, x, b := v.n, v.float(), v.bool()
		switch v.ref {
		case intKind:
			c.i = func(*frame) int64 { return n }
		case floatKind:
			c.f = func(*frame) float64 { return x }
		case boolKind:
			c.b = func(*frame) bool { return b }
		}
	case string:
		s := v.text()
		c.t = func(*frame) string { return s }
	}
	return c
}

// int returns a function for an Int, also if the code has only v. That is so for expressions that
// never produce a value.
func (c code) int() func(*frame) int64 {
	if c.i != nil {
		return c.i
	}
	v := c.v
	return func(f *frame) int64 { return v(f).n }
}

// bool returns a function for a Bool.
func (c code) bool() func(*frame) bool {
	if c.b != nil {
		return c.b
	}
	v := c.v
	return func(f *frame) bool { return v(f).n != 0 }
}

// do returns a function that computes the value and drops it.
func (c code) do() func(*frame) {
	switch {
	case c.i != nil:
		i := c.i
		return func(f *frame) { i(f) }
	case c.f != nil:
		x := c.f
		return func(f *frame) { x(f) }
	case c.b != nil:
		b := c.b
		return func(f *frame) { b(f) }
	}
	v := c.v
	return func(f *frame) { v(f) }
}

// store returns a function that computes the value and stores it. For scalars it writes only n if
// bare is set.
func (c code) store(bare bool) func(*frame, *Value) {
	if bare {
		switch {
		case c.i != nil:
			i := c.i
			return func(f *frame, to *Value) { to.n = i(f) }
		case c.b != nil:
			b := c.b
			return func(f *frame, to *Value) {
				to.n = 0
				if b(f) {
					to.n = 1
				}
			}
		}
	}
	v := c.v
	return func(f *frame, to *Value) { *to = v(f) }
}
