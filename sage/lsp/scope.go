package lsp

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/types"
)

// expression offers everything that can start an expression or a statement.
func (c *completer) expression() {
	c.locals()
	for _, o := range c.visible() {
		c.object(o)
	}
	c.modules(c.module)
	test := slices.ContainsFunc(c.path, func(n syntax.Node) bool { _, ok := n.(*syntax.TestDecl); return ok })
	for _, f := range library.Functions() {
		if !f.Test || test {
			c.add(completionItem{Label: f.Name(), Kind: itemFunction, Detail: "fn " + f.Signature,
				Documentation: markdown(f.Doc), SortText: "2" + f.Name()})
		}
	}
	for _, k := range library.Constants() {
		c.add(completionItem{Label: k.Name, Kind: itemConstant, Documentation: markdown(k.Doc), SortText: "2" + k.Name})
	}
	for _, name := range []string{"Some", "None", "Ok", "Err"} {
		c.add(completionItem{Label: name, Kind: itemMember, SortText: "2" + name})
	}
	if agent := c.agent(); agent != nil {
		for _, tool := range library.Tools() {
			if slices.Contains(agent.Tools, tool.Name) {
				c.add(completionItem{Label: tool.Name, Kind: itemModule, Documentation: markdown(tool.Doc),
					SortText: "2" + tool.Name})
			}
		}
		c.words(itemKeyword, "self", "yield", "receive", "checkpoint")
	}
	c.words(itemKeyword, "let", "if", "else", "match", "for", "while", "loop", "break", "continue", "return", "try",
		"catch", "fail", "retry", "summon", "await", "send", "divine", "trace", "span", "true", "false")
	if test {
		c.words(itemKeyword, "mock")
	}
}

// locals offers the variables and parameters in scope, the innermost first.
func (c *completer) locals() {
	for _, node := range slices.Backward(c.path) {
		switch n := node.(type) {
		case *syntax.Block:
			for _, s := range slices.Backward(n.Stmts) {
				if let, ok := s.(*syntax.LetStmt); ok && int(let.End) <= c.offset {
					c.bound(let.Pattern)
				}
			}
		case *syntax.ForStmt:
			if covers(n.Body, c.offset) {
				c.bound(n.Pattern)
			}
		case *syntax.MatchArm:
			if !covers(n.Pattern, c.offset) {
				c.bound(n.Pattern)
			}
		case *syntax.CatchExpr:
			if n.Err != nil && n.Body != nil && covers(n.Body, c.offset) {
				c.local(n.Err)
			}
		case *syntax.ClosureExpr:
			c.params(n.Params)
		case *syntax.FuncDecl:
			c.params(n.Params)
		case *syntax.Handler:
			if n.Param != nil {
				c.local(n.Param.Name)
			}
		}
	}
}

func (c *completer) params(params []*syntax.Param) {
	for _, p := range params {
		c.local(p.Name)
	}
}

// bound offers the names that a pattern binds.
func (c *completer) bound(p syntax.Pattern) {
	syntax.Inspect(p, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BindPat); ok {
			c.local(b.Name)
		}
		return true
	})
}

func (c *completer) local(name *syntax.Ident) {
	if o := c.info.Defs[name]; o != nil {
		c.object(o)
	}
}

// visible returns the objects that the module declares or uses, under the names that they have in
// it.
func (c *completer) visible() []*check.Object {
	all := slices.Collect(maps.Values(c.module.Objects))
	for _, d := range c.module.Tree.Decls {
		use, ok := d.(*syntax.UseDecl)
		if !ok || len(use.Path) == 0 {
			continue
		}
		o := objectOf(c.info, use.Path[len(use.Path)-1])
		switch {
		case use.Glob && o != nil && o.Kind == check.ModuleName && o.Of != nil:
			all = append(all, c.exported(o.Of)...)
		case use.Glob && o != nil && o.Kind == check.EnumName:
			c.variants(o.Type.Decl)
		case !use.Glob && use.Names == nil:
			all = append(all, called(o, use.Alias)...)
		}
		for _, n := range use.Names {
			all = append(all, called(objectOf(c.info, n.Name), n.Alias)...)
		}
	}
	slices.SortStableFunc(all, func(a, b *check.Object) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// called returns an object under the name it is used by, if there is one.
func called(o *check.Object, alias *syntax.Ident) []*check.Object {
	if o == nil {
		return nil
	}
	if alias == nil {
		return []*check.Object{o}
	}
	other := *o
	other.Name = alias.Name
	return []*check.Object{&other}
}

// modules offers the modules that a module declares.
func (c *completer) modules(m *check.Module) {
	for _, child := range m.Modules {
		c.add(completionItem{Label: last(child.Path), Kind: itemModule, Detail: "mod " + child.Path})
	}
}

// kinds offers the visible objects of some kinds, and the modules that may contain more.
func (c *completer) kinds(kinds ...check.ObjectKind) {
	for _, o := range c.visible() {
		if slices.Contains(kinds, o.Kind) || o.Kind == check.ModuleName {
			c.object(o)
		}
	}
	c.modules(c.module)
}

// agent returns the enclosing agent, nil if there is none.
func (c *completer) agent() *check.Agent {
	for _, n := range c.path {
		if d, ok := n.(*syntax.AgentDecl); ok {
			for _, a := range c.info.Agents {
				if a.Decl == d {
					return a
				}
			}
		}
	}
	return nil
}

// members offers the members after a dot.
func (c *completer) members(x *syntax.FieldExpr) {
	if _, ok := x.X.(*syntax.SelfExpr); ok {
		if agent := c.agent(); agent != nil {
			for _, b := range agent.Beliefs {
				c.object(b)
			}
		}
		return
	}
	var o *check.Object
	switch n := x.X.(type) {
	case *syntax.Ident:
		o = objectOf(c.info, n)
	case *syntax.FieldExpr:
		o = objectOf(c.info, n.Name)
	}
	switch {
	case o == nil:
	case o.Kind == check.ToolName && o.Tool != nil:
		for _, f := range o.Tool.Functions {
			c.add(completionItem{Label: f.Name(), Kind: itemMethod, Detail: "fn " + o.Tool.Name + "." + f.Signature,
				Documentation: markdown(f.Doc)})
		}
		return
	case o.Kind == check.EnumName || o.Kind == check.ModuleName:
		c.inside(o)
		return
	case o.Kind == check.Belief:
		for _, name := range []string{"get", "set", "checkpoint"} {
			c.object(&check.Object{Kind: check.BeliefMethod, Name: name})
		}
	}
	t := c.info.Types[x.X]
	if t == nil {
		if o == nil || o.Type == nil {
			return
		}
		t = o.Type
	}
	t = t.Resolve()
	if t.Kind == types.Record {
		for i, f := range t.Decl.Fields {
			c.add(completionItem{Label: f.Name, Kind: itemField, Detail: f.Name + ": " + t.FieldType(i).String()})
		}
	}
	for _, f := range library.Functions() {
		if !f.Test && takes(&f, t) {
			c.add(completionItem{Label: f.Name(), Kind: itemMethod, Detail: "fn " + f.Signature,
				Documentation: markdown(f.Doc), SortText: "2" + f.Name()})
		}
	}
}

// takes reports whether the first parameter of a library function accepts a type.
func takes(f *library.Function, t *types.Type) bool {
	tree, _ := parser.Parse(source.NewFile("library", "extern fn "+f.Signature))
	d := tree.Decls[0].(*syntax.FuncDecl)
	if len(d.Params) == 0 {
		return false
	}
	params := map[string]bool{}
	for _, p := range d.TypeParams {
		params[p.Name] = true
	}
	return fits(d.Params[0].Type, params, t)
}

func fits(want syntax.Type, params map[string]bool, t *types.Type) bool {
	t = t.Resolve()
	switch want := want.(type) {
	case *syntax.NamedType:
		name := want.Name.Last().Name
		if params[name] {
			return true
		}
		got, _, _ := strings.Cut(t.String(), "<")
		if t.Decl != nil {
			got = t.Decl.Name
		}
		if got != name {
			return false
		}
		args := want.Name.Segments[len(want.Name.Segments)-1].Args
		for i, a := range args {
			if i < len(t.Elems) && !fits(a, params, t.Elems[i]) {
				return false
			}
		}
		return true
	case *syntax.TupleType:
		return t.Kind == types.Tuple
	case *syntax.FuncType:
		return t.Kind == types.Func
	}
	return false
}
