package eval

import (
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// compiler compiles the body of one function, closure, handler or test.
type compiler struct {
	p         *Program
	fn        *function
	vars      map[*check.Object]variable
	next      int // slot
	result    types.Kind
	loop      *loop
	returns   int // how many return and yield were compiled
	exprDepth int // how many expressions are being compiled that statements stand in
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
	jumps   int  // how many break and continue were compiled
	unwinds bool // one stands inside of an expression
}

func (p *Program) newCompiler(name string, params int, result types.Kind) *compiler {
	return &compiler{
		p: p, fn: &function{name: name, params: params}, vars: map[*check.Object]variable{}, result: result,
	}
}

func (m *compiler) slot() int {
	n := m.next
	m.next++
	m.fn.slots = max(m.fn.slots, m.next)
	return n
}

func (m *compiler) slotsFor(n int) int {
	base := m.next
	m.next += n
	m.fn.slots = max(m.fn.slots, m.next)
	return base
}

// mark lets the variables that are made from here on be used again once the
// function that it returns is called. Within an expression none are: values of
// what was computed before may lie there.
func (m *compiler) mark() (release func()) {
	next := m.next
	return func() {
		if m.exprDepth == 0 {
			m.next = next
		}
	}
}

// typeOf is the type of an expression.
func (m *compiler) typeOf(e syntax.Expr) *types.Type {
	t := m.p.info.Types[e]
	if t == nil {
		return types.Of(types.Unit)
	}
	return t.Resolve()
}

// declare makes the variable that an object is.
func (m *compiler) declare(o *check.Object) variable {
	v := variable{slot: m.slot(), cell: o.Captured && o.Assigned}
	m.vars[o] = v
	return v
}

// place returns the address of the value of a variable.
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
func (m *compiler) keep(e syntax.Expr) code {
	return sharedAlias(m.expr(e), m.typeOf(e))
}

func sharedAlias(c code, t *types.Type) code {
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
func (m *compiler) tail(e syntax.Expr) code {
	c := m.expr(e)
	if c.local >= 0 {
		return c
	}
	return sharedAlias(c, m.typeOf(e))
}

// spilled computes several expressions in their order. If functions run
// between them, the values lie in the frame from the beginning.
func (m *compiler) spilled(codes ...code) (prepare func(*frame), ready []code) {
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
