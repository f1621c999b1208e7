package eval

import (
	"fmt"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// callee returns the object that a call names, or nil if it calls a value.
func (m *compiler) callee(x *syntax.CallExpr) *check.Object {
	switch f := x.Fun.(type) {
	case *syntax.Ident:
		return m.p.info.Uses[f]
	case *syntax.Path:
		return m.p.info.Uses[f.Last()]
	case *syntax.FieldExpr:
		return m.p.info.Uses[f.Name]
	}
	return nil
}

func (m *compiler) callExpr(x *syntax.CallExpr) code {
	o := m.callee(x)
	args := x.Args
	if o != nil {
		switch o.Kind {
		case check.LibraryFunc:
			if f, method := x.Fun.(*syntax.FieldExpr); method {
				args = append([]syntax.Expr{f.X}, args...)
			}
			return m.callLibrary(x, o, args)
		case check.Function:
			if f, method := x.Fun.(*syntax.FieldExpr); method && !m.isModule(f.X) {
				args = append([]syntax.Expr{f.X}, args...)
			}
			return m.callFunction(x, o, args)
		case check.BeliefMethod:
			return m.beliefMethod(x, o)
		case check.ToolFunc:
			return m.callTool(x, o)
		case check.VariantName:
			k := m.p.variant(o)
			if k.arity == 1 {
				c := m.keep(args[0])
				v := c.v
				return code{calls: c.calls, local: -1, v: func(f *frame) Value {
					f.m.charge(headerSize + valueSize)
					return newVariant(k, v(f))
				}}
			}
			return m.compound(m.keepAll(args), func(_ *machine, elems []Value) Value {
				return Value{int64(k.tag), &variant{kind: k, elems: elems}}
			})
		}
	}
	return m.callValue(x)
}

func (m *compiler) isModule(e syntax.Expr) bool {
	id, is := e.(*syntax.Ident)
	return is && m.p.info.Uses[id] != nil && m.p.info.Uses[id].Kind == check.ModuleName
}

// arguments compiles the arguments of a call. The function put stores them in the first variables
// of the frame of the call.
func (m *compiler) arguments(args []syntax.Expr, bare func(int) bool) (
	prepare func(*frame), put func(from, to *frame),
) {
	prepare, ready := m.spilledArgs(m.keepAll(args))
	stores := make([]func(*frame, *Value), len(ready))
	for i, c := range ready {
		stores[i] = c.store(bare(i))
	}
	switch len(stores) {
	case 0:
		return prepare, func(_, _ *frame) {}
	case 1:
		s0 := stores[0]
		return prepare, func(from, to *frame) { s0(from, &to.s[0]) }
	case 2:
		s0, s1 := stores[0], stores[1]
		return prepare, func(from, to *frame) { s0(from, &to.s[0]); s1(from, &to.s[1]) }
	}
	return prepare, func(from, to *frame) {
		for i, s := range stores {
			s(from, &to.s[i])
		}
	}
}

// spilledArgs is spilled for arguments. All calls of one depth use the same frame. If any argument
// calls a function, all of them are therefore computed before that frame is made.
func (m *compiler) spilledArgs(codes []code) (prepare func(*frame), ready []code) {
	if !anyCalls(codes) {
		return nil, codes
	}
	call := constantCode(unit)
	call.calls = true
	prepare, ready = m.spilled(append(codes, call)...)
	return prepare, ready[:len(codes)]
}

// callFunction compiles a call of a declared function.
func (m *compiler) callFunction(x *syntax.CallExpr, o *check.Object, args []syntax.Expr) code {
	fn, at := m.p.function(o), spanOf(x)
	params := o.Type.Resolve().Params()
	prepare, put := m.arguments(args, func(i int) bool {
		return i < len(params) && scalarOf(params[i].Resolve().Kind) != 0
	})
	scalar := fn.result
	// The frame still holds the result after exit.
	run := func(f *frame) *frame {
		if prepare != nil {
			prepare(f)
		}
		to := f.m.enter(f, fn.slots, at)
		put(f, to)
		fn.run(to)
		f.m.exit(to)
		return to
	}
	if prepare == nil {
		run = func(f *frame) *frame {
			to := f.m.enter(f, fn.slots, at)
			put(f, to)
			fn.run(to)
			f.m.exit(to)
			return to
		}
	}
	k := m.typeOf(x).Kind
	var c code
	switch scalar {
	case intKind:
		c = intCode(func(f *frame) int64 { return run(f).ret.n })
	case boolKind:
		c = boolCode(func(f *frame) bool { return run(f).ret.n != 0 })
	case floatKind:
		c = floatCode(func(f *frame) float64 { return run(f).ret.float() })
	case unitKind:
		c = code{local: -1, v: func(f *frame) Value { run(f); return unit }}
	default:
		c = valueCode(k, func(f *frame) Value {
			to := run(f)
			v := to.ret
			to.ret.ref = nil
			return v
		})
	}
	return c.withCalls(true)
}

// callValue compiles a call of a function value.
func (m *compiler) callValue(x *syntax.CallExpr) code {
	fun, at := m.expr(x.Fun), spanOf(x)
	slot := m.slot()
	load := fun.v
	prepare, put := m.arguments(x.Args, func(int) bool { return false })
	return valueCode(m.typeOf(x).Kind, func(f *frame) Value {
		f.s[slot] = load(f)
		if prepare != nil {
			prepare(f)
		}
		c := f.s[slot].ref.(*closure)
		to := f.m.enter(f, c.fn.slots, at)
		put(f, to)
		return f.m.run(c, to)
	}).withCalls(true)
}

// keptArguments lists, as bits, the arguments that functions of the library store or pass on as a
// whole without marking them as shared.
var keptArguments = map[string]uint{
	"push": 3, "concat": 1, "reverse": 1, "unwrap_or": 2, "unwrap_or_result": 2, "or_option": 3,
	"reduce": 2, "map_set": 6,
}

// callLibrary compiles a call of a function of the library.
func (m *compiler) callLibrary(x *syntax.CallExpr, o *check.Object, args []syntax.Expr) code {
	name, at := o.Name, spanOf(x)
	if o.Library != nil && o.Library.Changes {
		return m.change(x, name, args)
	}
	if name == "assert_fails" {
		return m.assertFails(args[0], at)
	}
	k := m.typeOf(x).Kind
	run := m.p.native(name, k)
	consumed := m.consumed
	m.consumed = nil
	codes := make([]code, len(args))
	for i, a := range args {
		if keptArguments[name]>>i&1 == 1 && !(i == 0 && consumed != nil && m.rootOf(a) == consumed) {
			codes[i] = m.keep(a)
		} else {
			codes[i] = m.expr(a)
		}
	}
	if c, short := m.shortcut(name, codes, args, at); short {
		return c
	}
	c := m.callNative(k, codes, run, at)
	c.alias = name == "or_option"
	return c
}

// callNative compiles a call of a native, whose arguments are in the frame.
func (m *compiler) callNative(k types.Kind, args []code, run native, at *source.Span) code {
	n, base := len(args), m.slotsFor(len(args))
	vs := make([]func(*frame) Value, n)
	for i, c := range args {
		vs[i] = c.v
	}
	return valueCode(k, func(f *frame) Value {
		for i, v := range vs {
			f.s[base+i] = v(f)
		}
		f.m.top, f.m.here = f, at
		return run(f.m, f.s[base:base+n:base+n])
	}).withCalls(true)
}

// rootOf returns the variable or belief that an expression reads, or nil if it is something else.
func (m *compiler) rootOf(e syntax.Expr) *check.Object {
	switch x := e.(type) {
	case *syntax.ParenExpr:
		return m.rootOf(x.X)
	case *syntax.Ident:
		if o := m.p.info.Uses[x]; o != nil && (o.Kind == check.Variable || o.Kind == check.Parameter) {
			return o
		}
	case *syntax.FieldExpr:
		if o := m.p.info.Uses[x.Name]; o != nil && o.Kind == check.Belief {
			return o
		}
	}
	return nil
}

// shortcut compiles calls of functions that are called often without a native.
func (m *compiler) shortcut(name string, c []code, args []syntax.Expr, at *source.Span) (code, bool) {
	switch name {
	case "len":
		v := c[0].v
		if m.typeOf(args[0]).Kind == types.List {
			return intCode(func(f *frame) int64 { return v(f).n }).withCalls(c[0].calls), true
		}
		return intCode(func(f *frame) int64 { return length(v(f)) }).withCalls(c[0].calls), true
	case "str":
		if c[0].t != nil {
			return c[0], true
		}
	case "push":
		prepare, c := m.spilled(c...)
		list, elem := c[0].v, c[1].v
		return after(prepare, code{local: -1, calls: anyCalls(c), v: func(f *frame) Value {
			to := list(f)
			x := elem(f)
			f.m.here = at
			return f.m.push(to, x)
		}}), true
	case "min", "max":
		if c[0].i != nil && c[1].i != nil && !anyCalls(c) {
			l, r := c[0].i, c[1].i
			if name == "min" {
				return intCode(func(f *frame) int64 { return min(l(f), r(f)) }), true
			}
			return intCode(func(f *frame) int64 { return max(l(f), r(f)) }), true
		}
	case "int_to_float":
		i := c[0].i
		return floatCode(func(f *frame) float64 { return float64(i(f)) }).withCalls(c[0].calls), true
	}
	return code{}, false
}

// native returns the native of a function of the library. The checker resolves overloads by their
// parameters; here the type of the result tells them apart.
func (p *Program) native(name string, result types.Kind) native {
	if result == types.Float {
		switch name {
		case "sum":
			name = "sum_floats"
		case "pow":
			name = "pow_float"
		}
	}
	run := p.natives[name]
	if run == nil {
		panic(fmt.Sprintf("the library has no function %s", name))
	}
	return run
}

// nativeFunction wraps a function of the library or of a tool as a function value.
func (p *Program) nativeFunction(o *check.Object, t *types.Type) *function {
	var run native
	if o.Kind == check.ToolFunc {
		run = p.tool(o)
	} else {
		run = p.native(o.Name, t.Resolve().Result().Resolve().Kind)
	}
	n := len(t.Resolve().Params())
	fn := &function{name: o.Name, params: n, slots: n}
	keep := keptArguments[o.Name]
	fn.body = func(f *frame) outcome {
		m := f.m
		for i := range n {
			if keep>>i&1 == 1 {
				m.share(f.s[i])
			}
		}
		m.top = f
		f.ret = run(m, f.s[:n:n])
		m.share(f.ret)
		return returning
	}
	return fn
}
