package eval

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

func (m *compiler) keepAll(es []syntax.Expr) []code {
	codes := make([]code, len(es))
	for i, e := range es {
		codes[i] = m.keep(e)
	}
	return codes
}

// compound compiles a value that is made of others.
func (m *compiler) compound(parts []code, build func(*machine, []Value) Value) code {
	prepare, ready := m.spilled(parts...)
	n := len(ready)
	vs := make([]func(*frame) Value, n)
	for i, c := range ready {
		vs[i] = c.v
	}
	return after(prepare, code{calls: anyCalls(ready), local: -1, v: func(f *frame) Value {
		f.m.charge(headerSize + n*valueSize)
		elems := make([]Value, n)
		for i, v := range vs {
			elems[i] = v(f)
		}
		return build(f.m, elems)
	}})
}

func (m *compiler) listLit(x *syntax.ListLit) code {
	return m.compound(m.keepAll(x.Elems), func(m *machine, elems []Value) Value {
		return Value{int64(len(elems)), &vector{buf: elems, used: len(elems), owner: m.id}}
	})
}

func (m *compiler) mapLit(x *syntax.MapLit) code {
	var parts []code
	for _, e := range x.Entries {
		parts = append(parts, m.keep(e.Key), m.keep(e.Value))
	}
	return m.compound(parts, func(m *machine, elems []Value) Value {
		made := m.newMapping()
		for i := 0; i < len(elems); i += 2 {
			made.set(m, elems[i], elems[i+1])
		}
		return Value{ref: made}
	})
}

func (m *compiler) recordLit(x *syntax.RecordLit) code {
	kind := m.p.record(m.typeOf(x).Decl)
	at := make([]int, len(x.Inits))
	parts := make([]code, len(x.Inits))
	for i, init := range x.Inits {
		at[i] = slices.Index(kind.fields, init.Name.Name)
		parts[i] = m.keep(init.Value)
	}
	inOrder := true
	for i, n := range at {
		inOrder = inOrder && i == n
	}
	return m.compound(parts, func(m *machine, elems []Value) Value {
		if !inOrder {
			fields := make([]Value, len(elems))
			for i, n := range at {
				fields[n] = elems[i]
			}
			elems = fields
		}
		return Value{ref: &record{kind: kind, fields: elems, owner: m.id}}
	})
}

// template compiles a string with interpolations.
func (m *compiler) template(x *syntax.TemplateLit) code {
	parts := make([]code, len(x.Exprs))
	for i, e := range x.Exprs {
		parts[i] = m.expr(e)
	}
	prepare, ready := m.spilled(parts...)
	texts := make([]string, len(x.Parts))
	for i, p := range x.Parts {
		texts[i] = p.Value
	}
	t := func(f *frame) string {
		buf := make([]byte, 0, 64)
		for i, c := range ready {
			buf = append(buf, texts[i]...)
			switch {
			case c.t != nil:
				s := c.t(f)
				f.m.charge(len(s))
				buf = append(buf, s...)
			default:
				buf = appendShown(buf, c.v(f), 0)
			}
		}
		buf = append(buf, texts[len(texts)-1]...)
		f.m.charge(len(buf) + 16)
		return string(buf)
	}
	return after(prepare, textCode(t).withCalls(anyCalls(ready)))
}

// closure compiles a function without a name.
func (m *compiler) closure(x *syntax.ClosureExpr) code {
	in := m.p.newCompiler("function", len(x.Params), m.typeOf(x).Result().Resolve().Kind)
	fn := in.fn
	for _, p := range x.Params {
		in.parameter(m.p.info.Defs[p.Name])
	}
	var from []func(*frame) Value
	for i, o := range m.p.info.Captures[x] {
		v, found := m.vars[o]
		if !found {
			continue // a belief or a constant
		}
		in.vars[o] = variable{slot: i, captured: true, cell: v.cell}
		n := v.slot
		switch {
		case v.captured:
			from = append(from, func(f *frame) Value { return f.fn.captured[n] })
		case v.cell:
			from = append(from, func(f *frame) Value { return f.s[n] })
		default:
			from = append(from, sharedAlias(v.read(o.Type.Resolve().Kind), o.Type).v)
		}
	}
	fn.result = scalarOf(in.result)
	fn.body = in.body(x.Body)
	if len(from) == 0 {
		return constantCode(Value{ref: &closure{fn: fn}})
	}
	return code{local: -1, v: func(f *frame) Value {
		f.m.charge(headerSize + len(from)*valueSize)
		c := &closure{fn: fn, captured: make([]Value, len(from))}
		for i, v := range from {
			c.captured[i] = v(f)
		}
		return Value{ref: c}
	}}
}

// parameter declares a parameter. One that closures change becomes a cell on entry. One without a
// name (nil) only takes a slot.
func (m *compiler) parameter(o *check.Object) {
	if o == nil {
		m.slot()
		return
	}
	v := m.declare(o)
	if v.cell {
		m.fn.cells = append(m.fn.cells, v.slot)
	}
}

// body compiles an expression whose value the function returns.
func (m *compiler) body(e syntax.Expr) func(*frame) outcome {
	if m.result == types.Never || m.result == types.Unit {
		return m.returnUnit(e)
	}
	return m.into(e, sink{kind: toReturn})
}
