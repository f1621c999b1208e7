package eval

import (
	"github.com/coppice-dev/coppice/sage/types"
)

// code is a compiled expression: a function that computes it, for each way in
// which its value may be wanted. v is always there; i is for Int, f for Float,
// b for Bool and t for String where the type is known to be that.
type code struct {
	v func(*frame) Value
	i func(*frame) int64
	f func(*frame) float64
	b func(*frame) bool
	t func(*frame) string

	// alias: the value stays where it is from, too: in a variable, an element.
	// A caller that keeps it has to share it, see maker.keep.
	alias bool
	// calls: functions of the program may run meanwhile. What was computed
	// before has to lie in the frame then, where it is counted.
	calls bool
	// constant holds if it is known already.
	constant bool
	// local is the variable that it is, if it is a plain one of the frame; else -1.
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

// valueCode is code for a value of a type, with the ways to it that the type has.
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

// pointerCode is code for what a place in memory holds. Of scalars the place
// holds only n for sure.
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

// constantCode is code for a value that is known.
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

// int is the way to an Int, which the code may only have as a value, such as
// one that never comes.
func (c code) int() func(*frame) int64 {
	if c.i != nil {
		return c.i
	}
	v := c.v
	return func(f *frame) int64 { return v(f).n }
}

// bool is the way to a Bool.
func (c code) bool() func(*frame) bool {
	if c.b != nil {
		return c.b
	}
	v := c.v
	return func(f *frame) bool { return v(f).n != 0 }
}

// do is the code as a statement.
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

// store is the code with a place for its value. Of scalars it writes n alone
// if bare is set.
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
