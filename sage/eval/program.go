package eval

import (
	"context"
	"fmt"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// Program is a compiled program. It does not change, and can run any number of times concurrently.
type Program struct {
	info     *check.Info
	natives  map[string]native
	funcs    map[*check.Object]*function
	todo     []func() // function bodies that are not yet compiled
	consts   map[*check.Object]Value
	agents   map[*check.Agent]*agentCode
	byName   map[*check.Object]*check.Agent
	records  map[*types.Decl]*recordKind
	variants map[*types.Decl][]*variantKind
	shapes   map[string]*shape
	inits    map[*check.Child]beliefInit
	tests    []*function
}

// Load compiles a program that was checked without errors. It fails if the value of a constant
// cannot be computed. A disagreement between the checker and the evaluator is an *InternalError.
func Load(info *check.Info) (p *Program, err error) {
	defer func() {
		if v := recover(); v != nil {
			p, err = nil, &InternalError{fmt.Errorf("%v", v), trace()}
		}
	}()
	p = &Program{
		info: info, natives: natives(),
		funcs: map[*check.Object]*function{}, consts: map[*check.Object]Value{},
		agents: map[*check.Agent]*agentCode{}, byName: map[*check.Object]*check.Agent{},
		records: map[*types.Decl]*recordKind{}, variants: map[*types.Decl][]*variantKind{},
		shapes: map[string]*shape{}, inits: map[*check.Child]beliefInit{},
	}
	// The values of agents use constants, so constants come first.
	for _, c := range info.Consts {
		if err := p.compute(c); err != nil {
			return nil, err
		}
	}
	for _, a := range info.Agents {
		p.byName[a.Object] = a
		p.agents[a] = p.compileAgent(a)
	}
	for _, a := range info.Agents {
		p.compileHandlers(a, p.agents[a])
	}
	for _, s := range info.Supervisors {
		for _, c := range s.Children {
			if c.Agent != nil {
				p.inits[c] = p.childInit(c)
			}
		}
	}
	for _, t := range info.Tests {
		m := p.newCompiler("test", 0, types.Unit)
		m.fn.body = m.block(t.Body, sink{kind: discard})
		p.tests = append(p.tests, m.fn)
	}
	p.compileAll()
	return p, nil
}

func (p *Program) compileAll() {
	for len(p.todo) > 0 {
		next := p.todo[0]
		p.todo = p.todo[1:]
		next()
	}
}

// function returns the code of a declared function. Its body is compiled later, as functions can
// call each other.
func (p *Program) function(o *check.Object) *function {
	if fn := p.funcs[o]; fn != nil {
		return fn
	}
	decl, is := o.Node.(*syntax.FuncDecl)
	if !is || decl.Body == nil {
		return p.functionWithoutBody(o)
	}
	m := p.newCompiler(o.Name, len(decl.Params), o.Type.Resolve().Result().Resolve().Kind)
	fn := m.fn
	fn.result = scalarOf(m.result)
	p.funcs[o] = fn
	for _, param := range decl.Params {
		m.parameter(p.info.Defs[param.Name])
	}
	p.todo = append(p.todo, func() { fn.body = m.body(&syntax.BlockExpr{Block: decl.Body}) })
	return fn
}

// functionWithoutBody is the code of a function that is declared without a body.
func (p *Program) functionWithoutBody(o *check.Object) *function {
	n := len(o.Type.Resolve().Params())
	fn := &function{name: o.Name, params: n, slots: n, body: func(f *frame) outcome {
		f.m.here = &o.Span
		f.m.throw(Tool, "%s has no body: functions of other languages cannot be called", o.Name)
		return returning
	}}
	p.funcs[o] = fn
	return fn
}

// thunk compiles an expression on its own, such as the first value of a belief.
func (p *Program) thunk(e syntax.Expr) *function {
	m := p.newCompiler("value", 0, types.Invalid)
	m.fn.body = put(sink{kind: toReturn}, m.keep(e).v)
	return m.fn
}

// compute computes the value of a constant.
func (p *Program) compute(o *check.Object) error {
	decl, is := o.Node.(*syntax.ConstDecl)
	if !is {
		return nil
	}
	fn := p.thunk(decl.Value)
	p.compileAll()
	m := newMachine(context.Background(), p.New(Options{}), nil)
	_, v, err := m.attempt(func() (outcome, Value) { return m.invoke(fn) })
	if err != nil {
		return fmt.Errorf("the constant %s: %w", o.Name, err)
	}
	p.consts[o] = v
	return nil
}

// record returns the kind of the records of a declaration.
func (p *Program) record(d *types.Decl) *recordKind {
	k := p.records[d]
	if k == nil {
		k = &recordKind{name: d.Name}
		for _, f := range d.Fields {
			k.fields = append(k.fields, f.Name)
		}
		p.records[d] = k
	}
	return k
}

// variant returns the kind of the variant that an object names.
func (p *Program) variant(o *check.Object) *variantKind {
	t := o.Type.Resolve()
	if t.Kind == types.Func {
		t = t.Result().Resolve()
	}
	if t.Decl == nil && o.Parent != nil {
		t = o.Parent.Type.Resolve()
	}
	return p.variantsOf(t.Decl)[o.Index]
}

func (p *Program) variantsOf(d *types.Decl) []*variantKind {
	if ks := p.variants[d]; ks != nil {
		return ks
	}
	var ks []*variantKind
	switch {
	case d.Name == "Option" && d.Module == "" && len(d.Variants) == 2 && d.Variants[0].Name == "Some":
		ks = []*variantKind{someKind, noneKind}
	case d.Name == "Result" && d.Module == "" && len(d.Variants) == 2 && d.Variants[0].Name == "Ok":
		ks = []*variantKind{okKind, errKind}
	default:
		for i, v := range d.Variants {
			ks = append(ks, newVariantKind(v.Name, i, len(v.Payload)))
		}
	}
	p.variants[d] = ks
	return ks
}

// shape returns a type in the form that is needed at run time.
func (p *Program) shape(t *types.Type) *shape {
	t = t.Resolve()
	key := ""
	if t.Kind == types.Record || t.Kind == types.Enum {
		key = fmt.Sprintf("%p %s", t.Decl, t)
		if s := p.shapes[key]; s != nil {
			return s
		}
	}
	s := &shape{kind: t.Kind}
	if key != "" {
		p.shapes[key] = s // before its parts, as a type can contain itself
	}
	switch t.Kind {
	case types.Record:
		s.record = p.record(t.Decl)
		for i := range t.Decl.Fields {
			s.elems = append(s.elems, p.shape(t.FieldType(i)))
		}
	case types.Enum:
		s.variants = p.variantsOf(t.Decl)
		s.option = s.variants[0] == someKind
		s.name = t.String()
		for i := range s.variants {
			var parts []*shape
			for _, part := range t.Payload(i) {
				parts = append(parts, p.shape(part))
			}
			s.payloads = append(s.payloads, parts)
		}
	case types.List, types.Map, types.Tuple:
		for _, e := range t.Elems {
			s.elems = append(s.elems, p.shape(e))
		}
	}
	return s
}
