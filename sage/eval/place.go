package eval

import (
	"fmt"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// A place can be assigned to: a variable, a belief, or a field or element of the value in a place.
// Before a part of a value is changed, the values that contain it have to be owned by this place
// alone, from the outermost to the innermost.

// target is a compiled place.
type target struct {
	prepare []func(*frame) // stores indices in the frame
	at      func(*frame) *Value
	set     func(*frame, Value) // for elements of maps and parts of persistent beliefs; else nil
	saved   int                 // index of the persistent belief that contains it; else -1
}

func (m *compiler) place(e syntax.Expr) target {
	t := m.placeIn(e)
	if t.saved >= 0 {
		return m.savedPlace(e, t)
	}
	return t
}

func (m *compiler) placeIn(e syntax.Expr) target {
	switch x := e.(type) {
	case *syntax.ParenExpr:
		return m.placeIn(x.X)
	case *syntax.Ident:
		o := m.p.info.Uses[x]
		return target{at: m.vars[o].place(), saved: -1}
	case *syntax.FieldExpr:
		o := m.p.info.Uses[x.Name]
		n := o.Index
		if o.Kind == check.Belief {
			t := target{at: func(f *frame) *Value { return &f.m.agent.fields[n] }, saved: -1}
			if persistent(o) {
				t.saved = n
			}
			return t
		}
		t := m.placeIn(x.X)
		of := t.at
		t.at = func(f *frame) *Value {
			at := of(f)
			r := f.m.ownRecord(*at)
			at.ref = r
			return &r.fields[n]
		}
		return t
	case *syntax.ElemExpr:
		t := m.placeIn(x.X)
		of, n := t.at, x.Index
		t.at = func(f *frame) *Value {
			at := of(f)
			mine := &tuple{append([]Value(nil), at.ref.(*tuple).elems...)}
			f.m.shareAll(mine.elems)
			at.ref = mine
			return &mine.elems[n]
		}
		return t
	case *syntax.IndexExpr:
		return m.elementPlace(x)
	}
	panic(fmt.Sprintf("%v: nothing can be assigned to this", e.Extent().Position()))
}

func (m *compiler) elementPlace(x *syntax.IndexExpr) target {
	t := m.placeIn(x.X)
	of, where := t.at, spanOf(x)
	index := m.expr(x.Index)
	if index.calls {
		slot, v := m.slot(), index.v
		t.prepare = append(t.prepare, func(f *frame) { f.s[slot] = v(f) })
		index = valueCode(m.typeOf(x.Index).Kind, func(f *frame) Value { return f.s[slot] })
	}
	if m.typeOf(x.X).Kind == types.Map {
		key := index.v
		own := func(f *frame) *mapping {
			at := of(f)
			in := f.m.ownMapping(*at)
			at.ref = in
			return in
		}
		t.set = func(f *frame, v Value) {
			k := key(f)
			f.m.here = where
			f.m.share(k)
			own(f).set(f.m, k, v)
		}
		t.at = func(f *frame) *Value {
			k := key(f)
			in := own(f)
			i := in.find(k)
			if i < 0 {
				f.m.here = where
				f.m.throw(Runtime, "the map has no key %s", truncated(show(k), 100))
			}
			return &in.vals[i]
		}
		return t
	}
	i := index.int()
	t.set = nil
	t.at = func(f *frame) *Value {
		n := i(f)
		at := of(f)
		if uint64(n) >= uint64(at.n) {
			f.m.here = where
			f.m.outside(n, at.n)
		}
		in := f.m.own(*at)
		at.ref = in
		return &in.buf[n]
	}
	return t
}

// savedPlace compiles a place in a persistent belief. The belief changes once its new value is
// stored, and not at all if storing fails.
func (m *compiler) savedPlace(e syntax.Expr, t target) target {
	n, where := t.saved, spanOf(e)
	if _, whole := m.isBelief(e); whole {
		t.set = func(f *frame, v Value) {
			f.m.here = where
			f.m.agent.setBelief(f.m, n, v)
		}
		return t
	}
	inner := t
	t.set = func(f *frame, v Value) {
		a := f.m.agent
		before := a.fields[n]
		f.m.share(before)
		var changed Value
		err := f.m.protect(f, func() {
			// The old value is marked as shared, so this changes a copy.
			if inner.set != nil {
				inner.set(f, v)
			} else {
				*inner.at(f) = v
			}
			changed = a.fields[n]
		})
		a.fields[n] = before
		f.m.here = where
		if err != nil {
			f.m.raise(err)
		}
		a.setBelief(f.m, n, changed)
	}
	return t
}

func (m *compiler) isBelief(e syntax.Expr) (*check.Object, bool) {
	switch x := e.(type) {
	case *syntax.ParenExpr:
		return m.isBelief(x.X)
	case *syntax.FieldExpr:
		o := m.p.info.Uses[x.Name]
		return o, o != nil && o.Kind == check.Belief
	}
	return nil, false
}

func persistent(o *check.Object) bool {
	f, is := o.Node.(*syntax.Field)
	return is && f.Persistent
}

// assign compiles target = value; and target op= value;.
func (m *compiler) assign(x *syntax.AssignStmt) func(*frame) outcome {
	if op, compound := compoundOps[x.Op]; compound {
		return m.assignOperation(x, op)
	}
	root := m.rootOf(x.Target)
	// A persistent belief stays as it is until its new value is stored.
	if call, is := x.Value.(*syntax.CallExpr); is && root != nil && !persistent(root) && m.isLibrary(call) {
		m.consumed = root
	}
	value := m.keep(x.Value)
	m.consumed = nil
	return m.storeTo(x.Target, value)
}

func (m *compiler) isLibrary(x *syntax.CallExpr) bool {
	o := m.callee(x)
	return o != nil && o.Kind == check.LibraryFunc
}

// storeTo compiles the assignment of a value to a place.
func (m *compiler) storeTo(e syntax.Expr, value code) func(*frame) outcome {
	t := m.place(e)
	prepare, set, at, v := t.prepare, t.set, t.at, value.v
	if o := m.rootOf(e); o != nil && set == nil {
		store := value.store(scalarOf(m.typeOf(e).Kind) != 0)
		if loc, soleExpr := m.vars[o]; soleExpr && !loc.captured && !loc.cell {
			slot := loc.slot
			if i := value.i; i != nil {
				return func(f *frame) outcome {
					f.s[slot].n = i(f)
					return normal
				}
			}
			return func(f *frame) outcome {
				f.s[slot] = v(f)
				return normal
			}
		}
		if o.Kind == check.Belief {
			return func(f *frame) outcome {
				*at(f) = v(f)
				return normal
			}
		}
		return func(f *frame) outcome {
			var to Value
			store(f, &to)
			*at(f) = to
			return normal
		}
	}
	if value.calls || len(prepare) > 0 {
		slot := m.slot()
		return func(f *frame) outcome {
			for _, p := range prepare {
				p(f)
			}
			f.s[slot] = v(f)
			if set != nil {
				set(f, f.s[slot])
			} else {
				*at(f) = f.s[slot]
			}
			return normal
		}
	}
	if set != nil {
		return func(f *frame) outcome {
			set(f, v(f))
			return normal
		}
	}
	return func(f *frame) outcome {
		x := v(f)
		*at(f) = x
		return normal
	}
}

var compoundOps = map[syntax.Kind]syntax.Kind{
	syntax.AddAssign: syntax.Add, syntax.SubAssign: syntax.Sub, syntax.MulAssign: syntax.Mul,
	syntax.DivAssign: syntax.Div, syntax.RemAssign: syntax.Rem, syntax.ConcatAssign: syntax.Concat,
}

func (m *compiler) assignOperation(x *syntax.AssignStmt, op syntax.Kind) func(*frame) outcome {
	old, more := m.expr(x.Target), m.expr(x.Value)
	if op == syntax.Concat && old.t == nil {
		// The old list need not be marked as shared, so that it can grow in place.
		prepare, c := m.spilled(old, sharedAlias(more, m.typeOf(x.Value)))
		l, r, at := c[0].v, c[1].v, spanOf(x)
		return m.storeTo(x.Target, after(prepare, code{local: -1, calls: anyCalls(c), v: func(f *frame) Value {
			args := [2]Value{l(f), r(f)}
			f.m.here = at
			return concat(f.m, args[:])
		}}))
	}
	return m.storeTo(x.Target, m.operation(op, old, more, spanOf(x)))
}

// change compiles a call of a library function that changes its first argument, which is a place.
func (m *compiler) change(x *syntax.CallExpr, name string, args []syntax.Expr) code {
	run, at := m.p.natives[name], spanOf(x)
	codes := append([]code{m.expr(args[0])}, m.keepAll(args[1:])...)
	n, base := len(codes), m.slotsFor(len(codes))
	t := m.place(args[0])
	return code{calls: true, local: -1, v: func(f *frame) Value {
		for _, p := range t.prepare {
			p(f)
		}
		for i, c := range codes[1:] {
			f.s[base+1+i] = c.v(f)
		}
		f.m.top, f.m.here = f, at
		if t.saved >= 0 {
			f.s[base] = codes[0].v(f)
			f.m.share(f.s[base])
			ret := run(f.m, f.s[base:base+n:base+n])
			t.set(f, f.s[base])
			return ret
		}
		place := t.at(f)
		f.s[base] = *place
		ret := run(f.m, f.s[base:base+n:base+n])
		*place = f.s[base]
		f.s[base] = Value{}
		return ret
	}}
}

func (m *compiler) beliefMethod(x *syntax.CallExpr, o *check.Object) code {
	of := x.Fun.(*syntax.FieldExpr).X
	belief, _ := m.isBelief(of)
	n, at := belief.Index, spanOf(x)
	switch o.Name {
	case "get":
		return m.belief(belief, m.typeOf(x).Kind)
	case "set":
		c := m.keep(x.Args[0])
		v := c.v
		return code{calls: true, local: -1, v: func(f *frame) Value {
			x := v(f)
			f.m.here = at
			f.m.agent.setBelief(f.m, n, x)
			return unit
		}}
	}
	return code{calls: true, local: -1, v: func(f *frame) Value {
		f.m.here = at
		f.m.agent.setBelief(f.m, n, f.m.agent.fields[n])
		return unit
	}}
}
