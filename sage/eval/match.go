package eval

import (
	"fmt"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// pattern compiles a pattern to a function that reports whether a value fits and sets the names in
// the pattern.
func (m *compiler) pattern(p syntax.Pattern) func(*frame, Value) bool {
	switch x := p.(type) {
	case *syntax.WildcardPat:
		return func(*frame, Value) bool { return true }
	case *syntax.BindPat:
		if o := m.p.info.Uses[x.Name]; o != nil && o.Kind == check.VariantName {
			tag := int64(o.Index)
			return func(_ *frame, v Value) bool { return v.n == tag }
		}
		o := m.p.info.Defs[x.Name]
		if o == nil {
			return func(*frame, Value) bool { return true }
		}
		v := m.declare(o)
		if !v.cell {
			slot := v.slot
			return func(f *frame, x Value) bool {
				f.s[slot] = x
				return true
			}
		}
		begin := v.begin()
		return func(f *frame, x Value) bool {
			begin(f, x)
			return true
		}
	case *syntax.LiteralPat:
		want := m.expr(x.Value).v(nil)
		if _, is := want.ref.(scalar); is && want.ref != floatKind {
			n := want.n
			return func(_ *frame, v Value) bool { return v.n == n }
		}
		return func(_ *frame, v Value) bool { return equal(v, want) }
	case *syntax.TuplePat:
		parts := m.patterns(x.Elems)
		return func(f *frame, v Value) bool { return fitAll(f, parts, v.ref.(*tuple).elems) }
	case *syntax.VariantPat:
		o := m.p.info.Uses[x.Name.Last()]
		if o == nil {
			panic(fmt.Sprintf("%v: the variant is unknown", x.Extent().Position()))
		}
		tag := int64(o.Index)
		if len(x.Args) == 0 {
			return func(_ *frame, v Value) bool { return v.n == tag }
		}
		parts := m.patterns(x.Args)
		if len(parts) == 1 {
			part := parts[0]
			return func(f *frame, v Value) bool {
				if v.n != tag {
					return false
				}
				e := v.ref.(*variant).elems[0]
				f.m.share(e)
				return part(f, e)
			}
		}
		return func(f *frame, v Value) bool { return v.n == tag && fitAll(f, parts, v.ref.(*variant).elems) }
	}
	panic(fmt.Sprintf("a pattern of type %T cannot be compiled", p))
}

func (m *compiler) patterns(ps []syntax.Pattern) []func(*frame, Value) bool {
	parts := make([]func(*frame, Value) bool, len(ps))
	for i, p := range ps {
		parts[i] = m.pattern(p)
	}
	return parts
}

func fitAll(f *frame, parts []func(*frame, Value) bool, elems []Value) bool {
	for i, fits := range parts {
		f.m.share(elems[i])
		if !fits(f, elems[i]) {
			return false
		}
	}
	return true
}

// match compiles a match as a statement. The value of the first arm that fits goes into the sink.
func (m *compiler) match(x *syntax.MatchExpr, to sink) stmt {
	defer m.mark()()
	subject := m.slot()
	value := m.into(x.X, sink{kind: toSlot, slot: subject})
	n := len(x.Arms)
	fits := make([]func(*frame, Value) bool, n)
	guards := make([]func(*frame) bool, n)
	bodies := make([]stmt, n)
	for i, arm := range x.Arms {
		release := m.mark()
		fits[i] = m.pattern(arm.Pattern)
		if arm.Guard != nil {
			guards[i] = m.expr(arm.Guard).bool()
		}
		bodies[i] = m.into(arm.Body, to)
		release()
	}
	at := spanOf(x)
	if table := m.jumpTable(x); table != nil {
		return func(f *frame) outcome {
			if how := value(f); how != normal {
				return how
			}
			v := f.s[subject]
			i := table[v.n]
			if i < 0 || !fits[i](f, v) {
				f.m.here = at
				f.m.noArm(v)
			}
			return bodies[i](f)
		}
	}
	return func(f *frame) outcome {
		if how := value(f); how != normal {
			return how
		}
		v := f.s[subject]
		for i, fit := range fits {
			if fit(f, v) && (guards[i] == nil || guards[i](f)) {
				return bodies[i](f)
			}
		}
		f.m.here = at
		f.m.noArm(v)
		return normal
	}
}

func (m *machine) noArm(v Value) {
	m.throw(Runtime, "no arm of this match fits %s", truncated(show(v), 100))
}

// jumpTable returns the index of the arm for each variant of an enum, or -1 if no arm fits. It
// returns nil if the variant alone does not decide.
func (m *compiler) jumpTable(x *syntax.MatchExpr) []int {
	t := m.typeOf(x.X)
	if t.Kind != types.Enum {
		return nil
	}
	table := make([]int, len(t.Decl.Variants))
	for i := range table {
		table[i] = -1
	}
	for i, arm := range x.Arms {
		if arm.Guard != nil {
			return nil
		}
		switch p := arm.Pattern.(type) {
		case *syntax.VariantPat:
			for _, a := range p.Args {
				switch a.(type) {
				case *syntax.BindPat, *syntax.WildcardPat:
				default:
					return nil
				}
			}
			if tag := m.p.info.Uses[p.Name.Last()].Index; table[tag] < 0 {
				table[tag] = i
			}
		case *syntax.WildcardPat, *syntax.BindPat:
			if b, is := p.(*syntax.BindPat); is && m.p.info.Uses[b.Name] != nil {
				return nil
			}
			for tag, arm := range table {
				if arm < 0 {
					table[tag] = i
				}
			}
		default:
			return nil
		}
	}
	return table
}
