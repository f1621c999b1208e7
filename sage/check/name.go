package check

import (
	"cmp"
	"slices"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// name returns the type of a name in an expression.
func (c *checker) name(id *syntax.Ident, want *types.Type) *types.Type {
	if o := c.local(id); o != nil {
		return o.Type
	}
	if o := c.sibling(id.Name); o != nil {
		c.info.Uses[id] = o
		if o.Type == nil {
			return c.invalid(id, CodeName, "name the agent of it that is meant", "`%s` is a supervisor, not a value",
				truncate(id.Name))
		}
		return o.Type
	}
	m := c.current.scope.module
	if o := c.global(id.Name, m); o != nil {
		c.info.Uses[id] = o
		return c.value(o, id, nil, want)
	}
	if o := c.variant(id, want); o != nil {
		return c.value(o, id, nil, want)
	}
	c.unknownName(id, false)
	return types.Of(types.Invalid)
}

// sibling returns the child with this name while the initial values of its siblings are checked,
// nil otherwise.
func (c *checker) sibling(name string) *Object {
	for b := c.current; b != nil; b = b.outer {
		if o := b.children[name]; o != nil {
			return o
		}
	}
	return nil
}

// unknownName reports an undefined name. called tells whether it is called as a function.
func (c *checker) unknownName(id *syntax.Ident, called bool) {
	if id.Name == "" || c.current.env.unknown[id.Name] {
		return
	}
	c.current.env.unknown[id.Name] = true
	m := c.current.scope.module
	if a := c.current.agent; a != nil && a.Belief(id.Name) != nil {
		c.fault(id, CodeName, "write self."+id.Name, "`%s` is a belief, which is not known without self", id.Name)
		return
	}
	help := cmp.Or(c.importHelp(m, id.Name), foreignNames[id.Name])
	if help == "" {
		help = c.didYouMean(id.Name, append(c.variables(), c.names(m, Function, LibraryFunc, Const, AgentName)...))
	}
	if help == "" && called {
		help = "declare it: fn " + truncate(id.Name) + "() { }"
	}
	c.fault(id, CodeName, help, "there is nothing called `%s` here", truncate(id.Name))
}

const optionHelp = "a value that may be missing is an Option: None, or Some(x)"

// foreignNames holds the help for names from other languages.
var foreignNames = map[string]string{
	"null": optionHelp, "nil": optionHelp, "none": optionHelp, "undefined": optionHelp, "Nil": optionHelp,
	"NULL": optionHelp, "println": "did you mean `print`?", "printf": "did you mean `print`?",
	"puts": "did you mean `print`?", "echo": "did you mean `print`?", "log_info": "did you mean `print`?",
	"console": "did you mean `print`?", "this": "did you mean `self`?", "True": "did you mean `true`?",
	"TRUE": "did you mean `true`?", "False": "did you mean `false`?", "FALSE": "did you mean `false`?",
}

// variant resolves an unqualified variant: of the expected enum, of the language, or the only one
// in scope. It returns nil if there is none, and reports an ambiguous name.
func (c *checker) variant(id *syntax.Ident, want *types.Type) *Object {
	if id.Name == "" || id.Name[0] < 'A' || id.Name[0] > 'Z' {
		return nil
	}
	if want != nil {
		if o := c.enums[want.Resolve().Decl]; o != nil && o.members[id.Name] != nil {
			c.info.Uses[id] = o.members[id.Name]
			return o.members[id.Name]
		}
	}
	if o := c.universe.variants[id.Name]; o != nil {
		c.info.Uses[id] = o
		return o
	}
	found := c.variantsNamed(c.current.scope.module)[id.Name]
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		c.fault(id, CodeName, "write "+found[0].Parent.Name+"::"+id.Name, "`%s` is a variant of `%s` and of `%s`",
			id.Name, found[0].Parent.Name, found[1].Parent.Name)
		// The choice no longer matters.
	}
	c.info.Uses[id] = found[0]
	return found[0]
}

// variantsNamed returns the variants of the enums that are in scope in a module, by name.
func (c *checker) variantsNamed(m *Module) map[string][]*Object {
	if m.variants != nil {
		return m.variants
	}
	m.variants = map[string][]*Object{}
	seen := map[*Object]bool{}
	add := func(o *Object) {
		if o == nil || o.Kind != EnumName || seen[o] {
			return
		}
		seen[o] = true
		for _, v := range o.Type.Decl.Variants {
			m.variants[v.Name] = append(m.variants[v.Name], o.members[v.Name])
		}
	}
	for _, d := range m.Tree.Decls {
		if d, ok := d.(*syntax.EnumDecl); ok {
			add(c.info.Defs[d.Name])
		}
	}
	for _, u := range m.uses {
		add(u.object)
		if u.glob != nil && u.glob.Kind == ModuleName {
			for _, d := range u.glob.Of.Tree.Decls {
				if d, ok := d.(*syntax.EnumDecl); ok && d.Pub {
					add(c.info.Defs[d.Name])
				}
			}
		}
	}
	return m.variants
}

// path returns the type of a path in an expression.
func (c *checker) path(p *syntax.Path, want *types.Type) *types.Type {
	if first := p.Segments[0].Name; len(p.Segments) == 1 && c.current.env.vars[first.Name] == nil &&
		c.global(first.Name, c.current.scope.module) == nil {
		c.unknownName(first, false)
		return types.Of(types.Invalid)
	}
	o := c.pathObject(p, c.current.scope.module)
	if o == nil {
		return types.Of(types.Invalid)
	}
	return c.value(o, p, c.pathArgs(p, o), want)
}

// pathArgs returns the type arguments written in a path: after the enum or the variant, or after
// the function.
func (c *checker) pathArgs(p *syntax.Path, o *Object) []*types.Type {
	var args []syntax.Type
	for i, seg := range p.Segments {
		if len(seg.Args) == 0 {
			continue
		}
		last := i == len(p.Segments)-1
		if args != nil || !last && !(o.Kind == VariantName && i == len(p.Segments)-2) {
			c.fault(seg.Name, CodeTypeName, "", "no types can stand after `%s`", truncate(seg.Name.Name))
			return nil
		}
		args = seg.Args
	}
	return c.typeList(args, c.current.scope)
}

// instance returns type arguments for one use: the written ones, or new variables.
func (c *checker) instance(at syntax.Node, name string, params, written []*types.Type) []*types.Type {
	if len(written) == len(params) && written != nil {
		return written
	}
	if written != nil {
		c.fault(at, CodeTypeName, "", "`%s` takes %s, and is given %d", truncate(name), countOf(len(params), "type"),
			len(written))
	}
	args := make([]*types.Type, len(params))
	for i := range args {
		args[i] = types.NewVar()
	}
	return args
}

// value returns the type of an object used as a value.
func (c *checker) value(o *Object, at syntax.Expr, written []*types.Type, want *types.Type) *types.Type {
	switch o.Kind {
	case Const:
		if o.Node != nil && o.state != done {
			c.constant(o)
		}
		return o.Type
	case Function:
		return c.instantiate(o, at, written)
	case LibraryFunc:
		c.testOnly(o, at)
		return c.instantiate(c.overloadAs(o, want), at, written)
	case VariantName:
		return c.variantValue(o, at, written, want)
	case RecordName:
		c.fault(at, CodeName, "a value of it is written "+o.Name+" { field: value }",
			"`%s` is a record, not a value", o.Name)
	case AgentName:
		help := "start one with summon " + o.Name + " { }"
		if c.current.children != nil {
			help = "give the child a name, and write that: " + o.Name + " as " + lowered(o.Name) + " { … }"
		}
		c.fault(at, CodeName, help, "`%s` is an agent, not a value", o.Name)
	case ToolName:
		c.fault(at, CodeName, "call one of its functions: "+o.Name+".f(…)", "`%s` is a tool, not a value", o.Name)
	default:
		c.fault(at, CodeName, "", "`%s` is %s, not a value", o.Name, o.Kind.article())
	}
	return types.Of(types.Invalid)
}

func (c *checker) instantiate(o *Object, at syntax.Expr, written []*types.Type) *types.Type {
	if len(o.params) == 0 && written == nil {
		return o.Type
	}
	return types.Subst(o.Type, o.params, c.instance(at, o.Name, o.params, written))
}

// overloadAs returns the overload of a library function that has the expected type, or the first
// one.
func (c *checker) overloadAs(o *Object, want *types.Type) *Object {
	fs := c.universe.functions[o.Name]
	if want = ofKind(want, types.Func); want == nil || len(fs) == 1 {
		return o
	}
	params := want.Params()
	for _, f := range fs {
		if slices.EqualFunc(params, f.Type.Params(), mayFit) {
			return f
		}
	}
	return o
}

// mayFit reports whether a partially known type may fit a parameter of a library function.
func mayFit(t, param *types.Type) bool {
	t = t.Resolve()
	if param.Kind == types.Param || t.Kind == types.Var || fitsAll(t) {
		return true
	}
	return t.Kind == param.Kind && t.Decl == param.Decl && slices.EqualFunc(t.Elems, param.Elems, mayFit)
}

// enumType returns an enum type for one use.
func (c *checker) enumType(o *Object, at syntax.Expr, written []*types.Type, want *types.Type) *types.Type {
	decl := o.Parent.Type.Decl
	t := types.Declared(types.Enum, decl, c.instance(at, decl.Name, decl.Params, written))
	if want != nil && len(decl.Params) > 0 && want.Resolve().Decl == decl {
		types.Unify(t, want)
	}
	return t
}

// variantValue returns the type of a variant used as a value. A variant with a payload is a
// function.
func (c *checker) variantValue(o *Object, at syntax.Expr, written []*types.Type, want *types.Type) *types.Type {
	if f := ofKind(want, types.Func); f != nil {
		want = f.Result()
	}
	t := c.enumType(o, at, written, want)
	if payload := t.Payload(o.Index); len(payload) > 0 {
		return types.FuncOf(payload, t, false)
	}
	return t
}
