package eval

import (
	"fmt"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// expr compiles an expression.
func (m *compiler) expr(e syntax.Expr) code {
	switch x := e.(type) {
	case *syntax.IntLit:
		if m.typeOf(e).Kind == types.Float {
			return constantCode(floatValue(float64(x.Value)))
		}
		return constantCode(intValue(x.Value))
	case *syntax.FloatLit:
		return constantCode(floatValue(x.Value))
	case *syntax.BoolLit:
		return constantCode(boolValue(x.Value))
	case *syntax.StringLit:
		return constantCode(textValue(x.Value))
	case *syntax.ParenExpr:
		return m.expr(x.X)
	case *syntax.Ident:
		return m.name(e, m.p.info.Uses[x])
	case *syntax.Path:
		return m.name(e, m.p.info.Uses[x.Last()])
	case *syntax.TemplateLit:
		return m.template(x)
	case *syntax.ListLit:
		return m.listLit(x)
	case *syntax.TupleLit:
		if len(x.Elems) == 0 {
			return constantCode(unit)
		}
		return m.compound(m.keepAll(x.Elems), func(_ *machine, elems []Value) Value {
			return Value{ref: &tuple{elems}}
		})
	case *syntax.MapLit:
		return m.mapLit(x)
	case *syntax.RecordLit:
		return m.recordLit(x)
	case *syntax.ClosureExpr:
		return m.closure(x)
	case *syntax.SelfExpr:
		return code{v: func(f *frame) Value { return Value{ref: f.m.agent.handle} }, local: -1}
	case *syntax.UnaryExpr:
		return m.unary(x)
	case *syntax.BinaryExpr:
		return m.binary(x)
	case *syntax.CallExpr:
		return m.callExpr(x)
	case *syntax.FieldExpr:
		return m.field(x)
	case *syntax.ElemExpr:
		return m.elem(x)
	case *syntax.IndexExpr:
		return m.index(x)
	case *syntax.IfExpr:
		return m.ifExpr(x)
	case *syntax.TryExpr:
		return m.try(x)
	case *syntax.FailExpr:
		return m.fail(x)
	case *syntax.SummonExpr:
		return m.summon(x)
	case *syntax.AwaitExpr:
		return m.await(x)
	case *syntax.SendExpr:
		return m.send(x)
	case *syntax.ReceiveExpr:
		return m.receive(x)
	case *syntax.TraceExpr:
		return m.trace(x)
	case *syntax.CheckpointExpr:
		at := spanOf(x)
		return code{calls: true, local: -1, v: func(f *frame) Value {
			f.m.here = at
			f.m.agent.checkpoint(f.m)
			return unit
		}}
	case *syntax.DivineExpr:
		return m.divine(x)
	case *syntax.BlockExpr, *syntax.MatchExpr, *syntax.CatchExpr, *syntax.RetryExpr,
		*syntax.BreakExpr, *syntax.ContinueExpr, *syntax.ReturnExpr, *syntax.YieldExpr:
		return m.detached(e)
	}
	panic(fmt.Sprintf("an expression of type %T cannot be compiled", e))
}

// detached compiles an expression that is made of statements. If one of them leaves the
// expression, it unwinds the stack.
func (m *compiler) detached(e syntax.Expr) code {
	slot := m.slot()
	leaving, leavingLoop := m.returns, 0
	if m.loop != nil {
		leavingLoop = m.loop.jumps
	}
	m.exprDepth++
	run := m.into(e, sink{kind: toSlot, slot: slot})
	m.exprDepth--
	if m.returns > leaving {
		m.fn.unwinds = true
	}
	if m.loop != nil && m.loop.jumps > leavingLoop {
		m.loop.unwinds = true
	}
	k := m.typeOf(e).Kind
	return valueCode(k, func(f *frame) Value {
		if how := run(f); how != normal {
			panic(&leave{how, f})
		}
		return f.s[slot]
	}).withCalls(true)
}

// name compiles the use of a name.
func (m *compiler) name(e syntax.Expr, o *check.Object) code {
	if o == nil {
		panic(fmt.Sprintf("%v: a name stands for nothing", e.Extent().Position()))
	}
	switch o.Kind {
	case check.ChildName:
		return code{v: func(f *frame) Value { return Value{ref: f.m.agent.siblings[o]} }, local: -1}
	case check.Variable, check.Parameter:
		v, found := m.vars[o]
		if !found {
			panic(fmt.Sprintf("%v: the variable %s is not there", e.Extent().Position(), o.Name))
		}
		return v.read(m.typeOf(e).Kind)
	case check.Const:
		return m.constant(o)
	case check.Belief:
		return m.belief(o, m.typeOf(e).Kind)
	case check.Function:
		return constantCode(Value{ref: &closure{fn: m.p.function(o)}})
	case check.LibraryFunc, check.ToolFunc:
		return constantCode(Value{ref: &closure{fn: m.p.nativeFunction(o, m.typeOf(e))}})
	case check.VariantName:
		k := m.p.variant(o)
		if k.arity == 0 {
			return constantCode(k.bare)
		}
		return constantCode(Value{ref: &closure{fn: &function{
			name: k.name, params: k.arity, slots: k.arity,
			body: func(f *frame) outcome {
				f.ret = k.make(f.s)
				return returning
			},
		}}})
	}
	panic(fmt.Sprintf("%v: %s is no value", e.Extent().Position(), o.Name))
}

// make returns a variant that carries values.
func (k *variantKind) make(elems []Value) Value {
	if k.arity == 1 {
		return newVariant(k, elems[0])
	}
	return Value{int64(k.tag), &variant{kind: k, elems: append([]Value(nil), elems...)}}
}

func (m *compiler) constant(o *check.Object) code {
	if o.Node == nil {
		switch x := o.Value.(type) {
		case int64:
			return constantCode(intValue(x))
		case float64:
			return constantCode(floatValue(x))
		}
	}
	v, known := m.p.consts[o]
	if !known {
		panic(fmt.Sprintf("the constant %s has no value", o.Name))
	}
	return constantCode(v)
}

func (m *compiler) belief(o *check.Object, k types.Kind) code {
	n := o.Index
	return pointerCode(k, func(f *frame) *Value { return &f.m.agent.fields[n] })
}

// field compiles x.name.
func (m *compiler) field(x *syntax.FieldExpr) code {
	o := m.p.info.Uses[x.Name]
	if o == nil {
		panic(fmt.Sprintf("%v: a field is unknown", x.Extent().Position()))
	}
	if o.Kind != check.RecordField {
		return m.name(x, o)
	}
	n, of := o.Index, m.expr(x.X)
	v := of.v
	if of.local >= 0 {
		slot := of.local
		return fieldCode(m.typeOf(x).Kind, func(f *frame) *Value { return &f.s[slot].ref.(*record).fields[n] })
	}
	return fieldCode(m.typeOf(x).Kind,
		func(f *frame) *Value { return &v(f).ref.(*record).fields[n] }).withCalls(of.calls)
}

// fieldCode is the code that reads a part of a value. Unlike variables, parts are always complete.
func fieldCode(k types.Kind, at func(*frame) *Value) code {
	c := valueCode(k, func(f *frame) Value { return *at(f) })
	c.alias = true
	return c
}

func (m *compiler) elem(x *syntax.ElemExpr) code {
	of, n := m.expr(x.X), x.Index
	v := of.v
	return fieldCode(m.typeOf(x).Kind, func(f *frame) *Value { return &v(f).ref.(*tuple).elems[n] }).withCalls(of.calls)
}

// index compiles x[i]. It fails if there is no such element.
func (m *compiler) index(x *syntax.IndexExpr) code {
	prepare, c := m.spilled(m.expr(x.X), m.expr(x.Index))
	of, at, k := c[0].v, spanOf(x), m.typeOf(x).Kind
	var r code
	switch m.typeOf(x.X).Kind {
	case types.Map:
		key := c[1].v
		r = valueCode(k, func(f *frame) Value {
			in, key := of(f).ref.(*mapping), key(f)
			v, found := in.get(key)
			if !found {
				f.m.here = at
				f.m.throw(Runtime, "the map has no key %s", truncated(show(key), 100))
			}
			return v
		})
	case types.String:
		i := c[1].int()
		r = valueCode(k, func(f *frame) Value {
			s, i := of(f).text(), i(f)
			part := characters(s, i, i+1)
			if i < 0 || part == "" {
				f.m.here = at
				f.m.outside(i, length(textValue(s)))
			}
			return textValue(part)
		})
	default:
		i := c[1].int()
		get := func(f *frame) *Value {
			list, i := of(f), i(f)
			if uint64(i) >= uint64(list.n) {
				f.m.here = at
				f.m.outside(i, list.n)
			}
			return &list.ref.(*vector).buf[i]
		}
		r = fieldCode(k, get)
		if k == types.Int {
			r.i = func(f *frame) int64 { return get(f).n }
		}
	}
	r.alias = true
	return after(prepare, r.withCalls(anyCalls(c)))
}

func (m *machine) outside(i, n int64) {
	if n == 0 {
		m.throw(Runtime, "index %d is out of bounds: there are no elements", i)
	}
	m.throw(Runtime, "index %d is out of bounds: expected 0 to %d", i, n-1)
}

// scalarOf returns the scalar kind of a type, or 0 if its values are not scalars.
func scalarOf(k types.Kind) scalar {
	switch k {
	case types.Int:
		return intKind
	case types.Float:
		return floatKind
	case types.Bool:
		return boolKind
	case types.Unit, types.Never:
		return unitKind
	}
	return 0
}
