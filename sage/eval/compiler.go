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
	next      int // the next free slot
	result    types.Kind
	loop      *loop
	returns   int // number of return and yield compiled so far
	exprDepth int // nesting of expressions that contain statements
	// consumed is the variable or belief that the result of the compiled call will overwrite. The
	// library may change its old value in place.
	consumed *check.Object
}

// variable is the storage of a variable.
type variable struct {
	slot     int // index in the frame, or in the captured values if captured is set
	captured bool
	cell     bool
}

// loop is the innermost loop around the compiled code.
type loop struct {
	jumps   int  // number of break and continue compiled so far
	unwinds bool // one of them is inside of an expression
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

// mark returns a function that frees the slots made since the call. Within an expression it frees
// none, as they may hold values that were computed before.
func (m *compiler) mark() (release func()) {
	next := m.next
	return func() {
		if m.exprDepth == 0 {
			m.next = next
		}
	}
}

// typeOf returns the type of an expression.
func (m *compiler) typeOf(e syntax.Expr) *types.Type {
	t := m.p.info.Types[e]
	if t == nil {
		return types.Of(types.Unit)
	}
	return t.Resolve()
}

// declare makes the variable of an object.
func (m *compiler) declare(o *check.Object) variable {
	v := variable{slot: m.slot(), cell: o.Captured && o.Assigned}
	m.vars[o] = v
	return v
}

// place returns a function for the address of the value of a variable.
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

// begin returns a function that sets the first value of a variable.
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

// read is the code that reads a variable.
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

// sharable reports whether values of a type can be changed in place.
func sharable(t *types.Type) bool {
	switch t.Resolve().Kind {
	case types.List, types.Map, types.Record, types.Param, types.Var, types.Invalid:
		return true
	}
	return false
}

// keep compiles an expression whose value will be stored.
func (m *compiler) keep(e syntax.Expr) code {
	return sharedAlias(m.expr(e), m.typeOf(e))
}

// sharedAlias marks the value of code as shared if it is also stored elsewhere.
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

// tail is keep for the value with which a function ends. A plain variable does not outlive it, so
// its value needs no mark.
func (m *compiler) tail(e syntax.Expr) code {
	c := m.expr(e)
	if c.local >= 0 {
		return c
	}
	return sharedAlias(c, m.typeOf(e))
}

// spilled computes several expressions in their order. If any of them but the first calls
// functions, the values before it are moved to the frame, where the memory count finds them.
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

// after is code that runs prepare first.
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

// spanOf returns the position of a node for errors, without keeping the tree alive.
func spanOf(n syntax.Node) *source.Span {
	s := n.Extent()
	return &s
}
