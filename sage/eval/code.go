package eval

import (
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
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
	// Whoever keeps it has to share it, see maker.keep.
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

// maker compiles the body of one function, closure, handler or test.
type maker struct {
	p       *Program
	fn      *function
	vars    map[*check.Object]variable
	agent   *check.Agent // whose handler it is; nil elsewhere
	next    int          // slot
	result  types.Kind
	loop    *loop
	leaving int // how many return and yield were compiled
	inside  int // how many expressions are being compiled that statements stand in
	// consumed is the variable or belief that is about to be overwritten with
	// what is computed, so that the library may change its old value in place.
	consumed *check.Object
}

// variable says where one is.
type variable struct {
	slot     int // in the frame; in what was captured if captured is set
	captured bool
	cell     bool
}

// loop is a loop around what is compiled.
type loop struct {
	leaving int  // how many break and continue were compiled
	deep    bool // one stands inside of an expression
}

func (m *maker) slot() int {
	n := m.next
	m.next++
	m.fn.slots = max(m.fn.slots, m.next)
	return n
}

func (m *maker) slotsFor(n int) int {
	base := m.next
	m.next += n
	m.fn.slots = max(m.fn.slots, m.next)
	return base
}

// mark lets the variables that are made from here on be used again once the
// function that it returns is called. Within an expression none are: values of
// what was computed before may lie there.
func (m *maker) mark() (release func()) {
	next := m.next
	return func() {
		if m.inside == 0 {
			m.next = next
		}
	}
}

// typeOf is the type of an expression.
func (m *maker) typeOf(e syntax.Expr) *types.Type {
	t := m.p.info.Types[e]
	if t == nil {
		return types.Of(types.Unit)
	}
	return t.Resolve()
}

// declare makes the variable that an object is.
func (m *maker) declare(o *check.Object) variable {
	v := variable{slot: m.slot(), cell: o.Captured && o.Assigned}
	m.vars[o] = v
	return v
}

// place is where the value of a variable is.
func (v variable) place() func(*frame) *Value {
	n := v.slot
	switch {
	case v.captured && v.cell:
		return func(f *frame) *Value { return &f.fn.captured[n].ref.(*cell).v }
	case v.captured:
		return func(f *frame) *Value { return &f.fn.captured[n] }
	case v.cell:
		return func(f *frame) *Value { return &f.s[n].ref.(*cell).v }
	}
	return func(f *frame) *Value { return &f.s[n] }
}

// begin puts the first value of a variable into its place.
func (v variable) begin() func(*frame, Value) {
	n := v.slot
	if v.cell {
		return func(f *frame, x Value) {
			f.m.charge(headerSize)
			f.s[n] = Value{ref: &cell{x}}
		}
	}
	return func(f *frame, x Value) { f.s[n] = x }
}

// read is code for a variable.
func (v variable) read(k types.Kind) code {
	n := v.slot
	if v.captured || v.cell {
		return pointerCode(k, v.place())
	}
	var c code
	switch k {
	case types.Int:
		c = intCode(func(f *frame) int64 { return f.s[n].n })
	case types.Bool:
		c = boolCode(func(f *frame) bool { return f.s[n].n != 0 })
	case types.Float:
		c = floatCode(func(f *frame) float64 { return f.s[n].float() })
	case types.String:
		c = textCode(func(f *frame) string { return f.s[n].ref.(string) })
		c.v = func(f *frame) Value { return f.s[n] }
	default:
		c = pointerCode(k, v.place())
	}
	c.local = n
	return c
}

// sharable says whether values of a type are written to in place.
func sharable(t *types.Type) bool {
	switch t.Resolve().Kind {
	case types.List, types.Map, types.Record, types.Param, types.Var, types.Invalid:
		return true
	}
	return false
}

// keep is expr for a value that will be kept somewhere.
func (m *maker) keep(e syntax.Expr) code {
	return kept(m.expr(e), m.typeOf(e))
}

func kept(c code, t *types.Type) code {
	if !c.alias || !sharable(t) {
		return c
	}
	v := c.v
	c.alias, c.local = false, -1
	c.v = func(f *frame) Value {
		x := v(f)
		f.m.share(x)
		return x
	}
	return c
}

// last is keep for a value with which the function ends: a plain variable does
// not outlive it.
func (m *maker) last(e syntax.Expr) code {
	c := m.expr(e)
	if c.local >= 0 {
		return c
	}
	return kept(c, m.typeOf(e))
}

// spilled computes several expressions in their order. If functions run
// between them, the values lie in the frame from the beginning.
func (m *maker) spilled(codes ...code) (prepare func(*frame), ready []code) {
	from := -1
	for i, c := range codes {
		if c.calls {
			from = i
		}
	}
	ready = append(ready, codes...)
	if from <= 0 {
		return nil, ready
	}
	var stores []func(*frame)
	for i, c := range codes[:from+1] {
		if c.constant {
			continue
		}
		slot := m.slot()
		v := c.v
		stores = append(stores, func(f *frame) { f.s[slot] = v(f) })
		r := code{v: func(f *frame) Value { return f.s[slot] }, alias: c.alias, local: -1}
		switch {
		case c.i != nil:
			r.i = func(f *frame) int64 { return f.s[slot].n }
		case c.f != nil:
			r.f = func(f *frame) float64 { return f.s[slot].float() }
		case c.b != nil:
			r.b = func(f *frame) bool { return f.s[slot].n != 0 }
		case c.t != nil:
			r.t = func(f *frame) string { return f.s[slot].ref.(string) }
		}
		ready[i] = r
	}
	return func(f *frame) {
		for _, s := range stores {
			s(f)
		}
	}, ready
}

// after is code with something to do before it.
func after(prepare func(*frame), c code) code {
	if prepare == nil {
		return c
	}
	c.calls, c.local = true, -1
	v := c.v
	c.v = func(f *frame) Value { prepare(f); return v(f) }
	if i := c.i; i != nil {
		c.i = func(f *frame) int64 { prepare(f); return i(f) }
	}
	if x := c.f; x != nil {
		c.f = func(f *frame) float64 { prepare(f); return x(f) }
	}
	if b := c.b; b != nil {
		c.b = func(f *frame) bool { prepare(f); return b(f) }
	}
	if t := c.t; t != nil {
		c.t = func(f *frame) string { prepare(f); return t(f) }
	}
	return c
}

func anyCalls(codes []code) bool {
	for _, c := range codes {
		if c.calls {
			return true
		}
	}
	return false
}

// spanOf is a place for errors that outlives the tree.
func spanOf(n syntax.Node) *source.Span {
	s := n.Extent()
	return &s
}
