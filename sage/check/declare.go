package check

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// collect creates the objects that a file declares, without their types.
func (c *checker) collect(m *Module) {
	tests := map[string]*syntax.TestDecl{}
	for _, d := range m.Tree.Decls {
		switch d := d.(type) {
		case *syntax.FuncDecl:
			if d.Extern {
				c.unsupported(d, "functions of other languages (`extern fn`)",
					"write the function in Sage, or run a command with the tool Shell")
			}
		case *syntax.TestDecl:
			c.info.Tests = append(c.info.Tests, d)
			if first := tests[d.Name.Value]; first != nil {
				c.duplicate(d.Name, CodeTestName, first.Name.Span, "give it another name", "two tests are called %q",
					truncate(d.Name.Value))
			}
			tests[d.Name.Value] = d
		case *syntax.ToolDecl:
			c.unsupported(d.Name, "tools of one's own (`tool`)", "the tools are Http, Fs, Shell and Database")
			c.object(m, ToolName, d.Name, d, d.Pub)
		case *syntax.ProtocolDecl:
			c.unsupported(d.Name, "protocols", "say what an agent is sent with `receives`")
		case *syntax.EffectDecl:
			c.unsupported(d.Name, "effect handlers (`handler … handles …`)",
				"the model is configured for the whole program")
		}
		if kind, name, pub := declares(d); name != nil {
			c.object(m, kind, name, d, pub)
		}
	}
}

// declares returns the kind and the name of a declaration. The name is nil if a program cannot
// refer to it.
func declares(d syntax.Decl) (kind ObjectKind, name *syntax.Ident, pub bool) {
	switch d := d.(type) {
	case *syntax.RecordDecl:
		return RecordName, d.Name, d.Pub
	case *syntax.EnumDecl:
		return EnumName, d.Name, d.Pub
	case *syntax.ConstDecl:
		return Const, d.Name, d.Pub
	case *syntax.FuncDecl:
		return Function, d.Name, d.Pub
	case *syntax.AgentDecl:
		return AgentName, d.Name, d.Pub
	case *syntax.SupervisorDecl:
		return SupervisorName, d.Name, d.Pub
	}
	return 0, nil, false
}

func (c *checker) unsupported(at syntax.Node, what, help string) {
	c.fault(at, CodeUnsupported, help, "%s are not supported", what)
}

// object creates the object of a declaration.
func (c *checker) object(m *Module, kind ObjectKind, name *syntax.Ident, d syntax.Node, pub bool) {
	o := &Object{Kind: kind, Name: name.Name, Span: name.Span, Node: d, Module: m, Pub: pub}
	c.info.Defs[name] = o
	if name.Name == "" {
		return
	}
	if first := m.Objects[name.Name]; first != nil {
		c.duplicate(name, CodeDuplicate, first.Span, "give one of them another name", "`%s` is declared twice",
			truncate(name.Name))
		return
	}
	if _, basic := basics[name.Name]; basic || c.universe.reserved(name.Name) {
		c.fault(name, CodeDuplicate, "give it another name", "`%s` is a type of the language", name.Name)
		if basic {
			return
		}
	}
	m.Objects[name.Name] = o
}

// addUnique adds an object to a scope, and reports and returns false if its name is taken.
func (c *checker) addUnique(scope map[string]*Object, id *syntax.Ident, o *Object, format string) bool {
	if first := scope[id.Name]; first != nil {
		c.duplicate(id, CodeDuplicate, first.Span, "give one of them another name", format, truncate(id.Name))
		return false
	}
	scope[id.Name] = o
	return true
}

// reserved reports whether a name belongs to the language and cannot be declared.
func (u *universe) reserved(name string) bool {
	return slices.Contains([]string{"Option", "Result", "Error", "ErrorKind"}, name) || u.tools[name] != nil
}

// typeScope is the context of a type.
type typeScope struct {
	module *Module
	params map[string]*Object
}

// scopeOf declares type parameters.
func (c *checker) scopeOf(m *Module, idents []*syntax.Ident) (s typeScope, params []*types.Type) {
	s.module = m
	if len(idents) == 0 {
		return s, nil
	}
	s.params = make(map[string]*Object, len(idents))
	for _, id := range idents {
		o := &Object{Kind: TypeParam, Name: id.Name, Span: id.Span, Node: id, Module: m, Type: types.NewParam(id.Name)}
		c.info.Defs[id] = o
		params = append(params, o.Type)
		if !c.addUnique(s.params, id, o, "two type parameters are called `%s`") {
			continue
		}
		if _, basic := basics[id.Name]; basic || c.universe.reserved(id.Name) {
			c.fault(id, CodeDuplicate, "give it another name, such as T", "`%s` is a type of the language", id.Name)
		}
	}
	return s, params
}

// declare resolves the types of declarations in all modules: first the types themselves, then their
// parts.
func (c *checker) declare() {
	scopes := map[*Object]typeScope{}
	c.eachDecl(func(m *Module, d syntax.Decl) {
		switch d := d.(type) {
		case *syntax.RecordDecl:
			c.declareType(scopes, types.Record, m, d.Name, d.TypeParams)
		case *syntax.EnumDecl:
			c.declareType(scopes, types.Enum, m, d.Name, d.TypeParams)
		case *syntax.AgentDecl:
			o := c.info.Defs[d.Name]
			o.Type = types.AgentOf(&types.Decl{Name: d.Name.Name, Module: m.Path, Output: types.NewVar()})
			a := &Agent{Object: o, Decl: d}
			c.agents[o] = a
			c.agentsOf[o.Type.Decl] = a
			c.info.Agents = append(c.info.Agents, a)
		case *syntax.SupervisorDecl:
			o := c.info.Defs[d.Name]
			s := &Supervisor{Object: o, Decl: d}
			c.supers[o] = s
			c.info.Supervisors = append(c.info.Supervisors, s)
		}
	})
	c.eachDecl(func(m *Module, d syntax.Decl) {
		switch d := d.(type) {
		case *syntax.RecordDecl:
			c.recordFields(d, scopes[c.info.Defs[d.Name]])
		case *syntax.EnumDecl:
			c.enumVariants(d, scopes[c.info.Defs[d.Name]])
		case *syntax.AgentDecl:
			c.agentParts(m, d)
		case *syntax.FuncDecl:
			c.signature(m, d)
		case *syntax.ConstDecl:
			if d.Type != nil {
				c.info.Defs[d.Name].Type = c.typ(d.Type, typeScope{module: m})
			}
		}
	})
	c.infinite()
}

func (c *checker) eachDecl(f func(*Module, syntax.Decl)) {
	for _, m := range c.info.Modules {
		for _, d := range m.Tree.Decls {
			f(m, d)
		}
	}
}

func (c *checker) declareType(scopes map[*Object]typeScope, kind types.Kind, m *Module, name *syntax.Ident,
	idents []*syntax.Ident) {
	o := c.info.Defs[name]
	s, params := c.scopeOf(m, idents)
	scopes[o] = s
	o.Type = types.Declared(kind, &types.Decl{Name: name.Name, Module: m.Path, Params: params}, params)
	c.declared(o)
}

func (c *checker) recordFields(d *syntax.RecordDecl, s typeScope) {
	o := c.info.Defs[d.Name]
	o.members = make(map[string]*Object, len(d.Fields))
	for _, f := range d.Fields {
		field := &Object{Kind: RecordField, Name: f.Name.Name, Span: f.Name.Span, Node: f, Module: s.module, Pub: true,
			Type: c.typ(f.Type, s), Index: len(o.Type.Decl.Fields), Parent: o}
		c.info.Defs[f.Name] = field
		if c.addUnique(o.members, f.Name, field, "field `%s` is declared twice") {
			o.Type.Decl.Fields = append(o.Type.Decl.Fields, types.Field{Name: f.Name.Name, Type: field.Type})
		}
	}
}

func (c *checker) enumVariants(d *syntax.EnumDecl, s typeScope) {
	o := c.info.Defs[d.Name]
	o.members = make(map[string]*Object, len(d.Variants))
	for _, v := range d.Variants {
		variant := types.Variant{Name: v.Name.Name, Payload: c.typeList(v.Payload, s)}
		object := &Object{Kind: VariantName, Name: v.Name.Name, Span: v.Name.Span, Node: v, Module: s.module, Pub: true,
			Type: o.Type, Index: len(o.Type.Decl.Variants), Parent: o}
		c.info.Defs[v.Name] = object
		if c.addUnique(o.members, v.Name, object, "variant `%s` is declared twice") {
			o.Type.Decl.Variants = append(o.Type.Decl.Variants, variant)
		}
	}
	if len(d.Variants) == 0 {
		c.fault(d.Name, CodeTypeName, "give it a variant", "enum `%s` has no variants, so nothing can be one",
			truncate(d.Name.Name))
	}
}

func (c *checker) signature(m *Module, d *syntax.FuncDecl) {
	o := c.info.Defs[d.Name]
	s, params := c.scopeOf(m, d.TypeParams)
	o.scope, o.params = s, params
	of := make([]*types.Type, len(d.Params))
	for i, p := range d.Params {
		of[i] = c.typ(p.Type, s)
	}
	result := types.Of(types.Unit)
	if d.Result != nil {
		result = c.typ(d.Result, s)
	}
	o.Type = types.FuncOf(of, result, d.Fails)
}

// infinite reports records that contain themselves with nothing optional in between, so that no
// value can be made.
func (c *checker) infinite() {
	state := map[*types.Decl]uint8{}
	var visit func(t *types.Type, depth int) bool
	visit = func(t *types.Type, depth int) bool {
		switch t.Kind {
		case types.Tuple:
			return slices.ContainsFunc(t.Elems, func(e *types.Type) bool { return visit(e, depth) })
		case types.Record:
			if state[t.Decl] == done || depth > 10_000 {
				return false
			}
			if state[t.Decl] == active {
				return true
			}
			state[t.Decl] = active
			for i, f := range t.Decl.Fields {
				if visit(f.Type, depth+1) {
					state[t.Decl] = done
					if o := c.records[t.Decl]; o != nil && o.members[f.Name] != nil && o.members[f.Name].Index == i {
						c.fault(o.members[f.Name].Node.(*syntax.Field), CodeInfinite, "make it an Option or a List",
							"no value of `%s` can be made: it contains itself", o.Name)
						t.Decl.Fields[i].Type = types.Of(types.Invalid)
					}
					return false
				}
			}
			state[t.Decl] = done
		}
		return false
	}
	c.eachDecl(func(_ *Module, d syntax.Decl) {
		if r, ok := d.(*syntax.RecordDecl); ok {
			visit(c.info.Defs[r.Name].Type, 0)
		}
	})
}
