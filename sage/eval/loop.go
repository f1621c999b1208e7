package eval

import (
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// while compiles a loop with or without a condition.
func (m *compiler) while(condition syntax.Expr, b *syntax.Block) stmt {
	cond := func(*frame) bool { return true }
	if condition != nil {
		cond = m.expr(condition).bool()
	}
	body := m.loopBody(b)
	return func(f *frame) outcome {
		for cond(f) {
			if how := body(f); how > continuing {
				return how
			} else if how == breaking {
				break
			}
			f.m.tick()
		}
		return normal
	}
}

// loopBody compiles the body of a loop.
func (m *compiler) loopBody(b *syntax.Block) stmt {
	around := m.loop
	m.loop = &loop{}
	body := m.block(b, sink{kind: discard})
	unwinds := m.loop.unwinds
	m.loop = around
	if !unwinds {
		return body
	}
	return func(f *frame) outcome { return shield(f, body, breaking, continuing) }
}

func (m *compiler) forStmt(x *syntax.ForStmt) stmt {
	defer m.mark()()
	if run := m.forRange(x); run != nil {
		return run
	}
	over := m.keep(x.X)
	v := over.v
	in := m.slot()
	if m.typeOf(x.X).Kind == types.String {
		v = func(f *frame) Value {
			f.s[in] = over.v(f)
			return chars(f.m, f.s[in:in+1])
		}
	}
	begin := m.pattern(x.Pattern)
	body := m.loopBody(x.Body)
	turn := func(f *frame, elem Value) (outcome, bool) {
		begin(f, elem)
		how := body(f)
		if how != normal && how != continuing {
			if how == breaking {
				how = normal
			}
			return how, false
		}
		f.m.tick()
		return normal, true
	}
	if m.typeOf(x.X).Kind == types.Map {
		return func(f *frame) outcome {
			f.s[in] = v(f)
			for k, e := range f.s[in].ref.(*mapping).all() {
				f.m.share(k)
				f.m.share(e)
				if how, further := turn(f, Value{ref: &tuple{[]Value{k, e}}}); !further {
					return how
				}
			}
			return normal
		}
	}
	share := sharable(elemType(m.typeOf(x.X)))
	return func(f *frame) outcome {
		f.s[in] = v(f)
		// The list was marked as shared, so the loop sees no changes.
		for _, e := range f.s[in].elems() {
			if share {
				f.m.share(e)
			}
			if how, further := turn(f, e); !further {
				return how
			}
		}
		return normal
	}
}

func elemType(t *types.Type) *types.Type {
	if len(t.Elems) == 0 {
		return types.Of(types.Invalid)
	}
	return t.Elems[0]
}

// forRange compiles a loop over range(a, b) without making the list. It returns nil for other
// loops.
func (m *compiler) forRange(x *syntax.ForStmt) stmt {
	call, is := x.X.(*syntax.CallExpr)
	if !is || len(call.Args) != 2 {
		return nil
	}
	o := m.callee(call)
	if o == nil || o.Kind != check.LibraryFunc || o.Name != "range" {
		return nil
	}
	bind, named := x.Pattern.(*syntax.BindPat)
	_, unnamed := x.Pattern.(*syntax.WildcardPat)
	if !named && !unnamed {
		return nil
	}
	prepare, ends := m.spilled(m.expr(call.Args[0]), m.expr(call.Args[1]))
	from, to := ends[0].int(), ends[1].int()
	begin := func(*frame, Value) {}
	slot := -1
	if named {
		if o := m.p.info.Defs[bind.Name]; o != nil {
			v := m.declare(o)
			begin = v.begin()
			if !v.cell {
				slot = v.slot
			}
		}
	}
	body := m.loopBody(x.Body)
	return func(f *frame) outcome {
		if prepare != nil {
			prepare(f)
		}
		i, end := from(f), to(f)
		if slot >= 0 {
			f.s[slot].ref = nil // clears a former list, whose length would be n
		}
		for ; i < end; i++ {
			if slot >= 0 {
				f.s[slot].n = i
			} else {
				begin(f, intValue(i))
			}
			if how := body(f); how > continuing {
				return how
			} else if how == breaking {
				break
			}
			f.m.tick()
		}
		return normal
	}
}
