package check

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/library"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// call checks f(x), x.f(y), self.b.get(), Tool.f(x) and Variant(x).
func (c *checker) call(x *syntax.CallExpr, want *types.Type) *types.Type {
	switch f := x.Fun.(type) {
	case *syntax.Ident:
		if c.current.env.vars[f.Name] == nil {
			o := c.global(f.Name, c.current.scope.module)
			if o == nil {
				o = c.variant(f, want)
			} else {
				c.info.Uses[f] = o
			}
			if o == nil {
				return c.badCall(x, func() { c.unknownName(f, true) })
			}
			return c.callObject(o, f, nil, x.Args, x, want)
		}
	case *syntax.Path:
		o := c.pathObject(f, c.current.scope.module)
		if o == nil {
			return c.badCall(x, func() {
				if len(f.Segments) == 1 {
					if c.current.env.vars[f.Segments[0].Name.Name] != nil {
						c.fault(f, CodeTypeName, "write only its name", "a variable takes no types")
						return
					}
					c.unknownName(f.Segments[0].Name, true)
				}
			})
		}
		return c.callObject(o, f, c.pathArgs(f, o), x.Args, x, want)
	case *syntax.FieldExpr:
		return c.callField(f, x, want)
	}
	return c.callValue(x.Fun, c.expr(x.Fun, nil), x)
}

// badCall checks the arguments of an unknown function.
func (c *checker) badCall(x *syntax.CallExpr, report func()) *types.Type {
	report()
	c.record(x.Fun, types.Of(types.Invalid))
	c.exprs(x.Args)
	return types.Of(types.Invalid)
}

// callObject calls a named object.
func (c *checker) callObject(o *Object, fun syntax.Expr, written []*types.Type, args []syntax.Expr,
	x *syntax.CallExpr, want *types.Type) *types.Type {
	switch o.Kind {
	case Function:
		t := c.instantiate(o, fun, written)
		c.record(fun, t)
		return c.apply(o.Name, o, t, args, nil, x, want)
	case LibraryFunc:
		c.testOnly(o, fun)
		return c.callLibrary(c.universe.functions[o.Name], fun, written, args, nil, x, want)
	case VariantName:
		t := c.enumType(o, fun, written, want)
		payload := t.Payload(o.Index)
		if len(payload) == 0 {
			c.record(fun, t)
			return c.invalid(x, CodeArguments, "write only `"+o.Name+"`", "variant `%s` carries nothing", o.Name)
		}
		f := types.FuncOf(payload, t, false)
		c.record(fun, f)
		return c.apply(o.Name, o, f, args, nil, x, nil)
	case Const:
		return c.callValue(fun, c.value(o, fun, nil, nil), x)
	}
	return c.badCall(x, func() {
		switch o.Kind {
		case RecordName:
			c.fault(fun, CodeCall, "a value of it is written "+o.Name+" { field: value }",
				"`%s` is a record, not a function", o.Name)
		case AgentName:
			c.fault(fun, CodeCall, "start one with summon "+o.Name+" { }", "`%s` is an agent, not a function", o.Name)
		default:
			c.fault(fun, CodeCall, "", "`%s` is %s, not a function", truncate(o.Name), o.Kind.article())
		}
	})
}

// callField calls the member after a dot.
func (c *checker) callField(f *syntax.FieldExpr, x *syntax.CallExpr, want *types.Type) *types.Type {
	switch base := f.X.(type) {
	case *syntax.SelfExpr:
		return c.callValue(f, c.belief(f), x)
	case *syntax.FieldExpr:
		if _, ok := base.X.(*syntax.SelfExpr); ok && c.universe.methods[f.Name.Name] != nil && c.current.agent != nil {
			if b := c.current.agent.Belief(base.Name.Name); b != nil {
				return c.beliefMethod(b, base, f, x)
			}
		}
	case *syntax.Ident:
		o := c.typeName(base)
		if o == nil {
			break
		}
		if o.Kind == ToolName {
			return c.callTool(base, f, x, want)
		}
		c.info.Uses[base] = o
		c.record(base, types.Of(types.Invalid))
		if o.Kind == EnumName {
			if v := c.member(c.current.scope.module, o, f.Name); v != nil {
				c.info.Uses[f.Name] = v
				return c.callObject(v, f, nil, x.Args, x, want)
			}
			return c.badCall(x, func() {})
		}
		return c.badCall(x, func() {
			c.fault(f, CodeName, "write "+truncate(base.Name)+"::"+truncate(f.Name.Name)+"(…)",
				"what is in a module is written with ::")
		})
	}
	t := c.expr(f.X, nil)
	r := t.Resolve()
	if r.Kind == types.Record && r.Decl.Field(f.Name.Name) >= 0 {
		return c.callValue(f, c.field(f, t), x)
	}
	if fs := c.universe.functions[f.Name.Name]; fs != nil && len(fs[0].Type.Elems) > 1 {
		if fitsAll(r) {
			return c.badCall(x, func() {})
		}
		c.testOnly(fs[0], f)
		return c.callLibrary(fs, f, nil, append([]syntax.Expr{f.X}, x.Args...), t, x, want)
	}
	return c.badCall(x, func() {
		switch {
		case fitsAll(r) || f.Name.Name == "":
		case r.Kind == types.Var:
			c.unknown(f.X, "")
		case f.Name.Name == "set" || f.Name.Name == "checkpoint":
			c.fault(f.Name, CodeField, "only beliefs have them: self.name."+f.Name.Name+"(…)", "`%s` has no `%s`", t,
				f.Name.Name)
		default:
			help := c.didYouMean(f.Name.Name, c.names(c.current.scope.module, LibraryFunc))
			if o := c.global(f.Name.Name, c.current.scope.module); o != nil && o.Kind == Function {
				help = "functions of a program are called before what they are given: " + o.Name + "(x)"
			}
			c.fault(f.Name, CodeField, help, "`%s` has no function `%s`", t, truncate(f.Name.Name))
		}
	})
}

// beliefMethod checks self.b.get(), self.b.set(v) and self.b.checkpoint().
func (c *checker) beliefMethod(b *Object, base, f *syntax.FieldExpr, x *syntax.CallExpr) *types.Type {
	c.info.Uses[f.Name] = c.universe.methods[f.Name.Name]
	c.record(base, c.belief(base))
	c.record(f, types.Of(types.Invalid))
	want := 0
	if f.Name.Name == "set" {
		want = 1
	}
	if len(x.Args) != want {
		c.fault(x, CodeArguments, "", "`%s` of a belief takes %s, and is given %d", f.Name.Name,
			countOf(want, "value"), len(x.Args))
	}
	for i, a := range x.Args {
		if i < want {
			c.expect(a, b.Type, reason{what: "is the type of the belief"})
		} else {
			c.expr(a, nil)
		}
	}
	switch f.Name.Name {
	case "get":
		return b.Type
	case "checkpoint":
		if !b.Node.(*syntax.Field).Persistent {
			c.fault(f, CodeCheckpoint, "mark it with @persistent",
				"belief `%s` is not kept, so there is nothing to write", b.Name)
		}
	}
	return c.universe.unit
}

// toolFunc returns the function of a tool, the first of its name. It reports an unknown tool or
// function.
func (c *checker) toolFunc(tool, name *syntax.Ident) *Object {
	o := c.universe.tools[tool.Name]
	if user := c.current.scope.module.Objects[tool.Name]; user != nil {
		o = nil
		if user.Kind == ToolName {
			return nil // already reported as unsupported
		}
	}
	if o == nil {
		if tool.Name != "" {
			c.fault(tool, CodeName, c.didYouMeanOr(tool.Name, c.toolNames(), "the tools are "), "there is no tool `%s`",
				truncate(tool.Name))
		}
		return nil
	}
	c.info.Uses[tool] = o
	f := o.members[name.Name]
	if f == nil {
		var names []string
		for i := range o.Tool.Functions {
			if n := o.Tool.Functions[i].Name(); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		if name.Name != "" {
			c.fault(name, CodeToolFunc, c.didYouMeanOr(name.Name, names, "its functions are "),
				"tool `%s` has no function `%s`", o.Name, truncate(name.Name))
		}
		return nil
	}
	c.info.Uses[name] = f
	return f
}

func (c *checker) toolNames() []string { return c.names(c.info.Modules[0], ToolName) }

// callTool checks Tool.f(x).
func (c *checker) callTool(base *syntax.Ident, f *syntax.FieldExpr, x *syntax.CallExpr, want *types.Type) *types.Type {
	c.record(base, types.Of(types.Invalid))
	o := c.toolFunc(base, f.Name)
	if o == nil {
		return c.badCall(x, func() {})
	}
	if a := c.current.agent; a != nil && !slices.Contains(a.Tools, base.Name) {
		c.fault(base, CodeToolUse, "write use "+base.Name+" in the braces of the agent",
			"agent `%s` does not use the tool `%s`", a.Object.Name, base.Name)
		a.Tools = append(a.Tools, base.Name) // report it only once
	}
	if o.Tool.Name == "Shell" && len(x.Args) > 0 {
		c.shellLine(x.Args[0])
	}
	return c.callLibrary(c.universe.functions[o.Tool.Name+"."+o.Name], f, nil, x.Args, nil, x, want)
}

// shellLine warns of a command line that needs a shell, and therefore always fails.
func (c *checker) shellLine(arg syntax.Expr) {
	line, ok := arg.(*syntax.StringLit)
	if !ok {
		return
	}
	if bad, found := library.ShellSyntax(line.Value); found {
		help := `give the words one by one, as in ["grep", "-c", "a b", "notes.txt"], or ask for a ` +
			`shell: ["sh", "-c", "…"]`
		c.warn(line, CodeNoShell, help,
			"`%c` means something to a shell, and Shell.run has none: this fails when it runs", bad)
	}
}

func (c *checker) testOnly(o *Object, at syntax.Node) {
	if !o.Library.Test || c.inTest() {
		return
	}
	c.fault(at, CodeTestOnly, "put it into test \"…\" { }", "`%s` stands only in tests", o.Name)
}

// inTest reports whether the current body is in a test or in a function of a test file.
func (c *checker) inTest() bool {
	for b := c.current; b != nil; b = b.outer {
		if b.kind == testBody {
			return true
		}
	}
	name := c.current.scope.module.File.Name
	return c.current.kind != valueBody && len(name) > len("_test.sg") && strings.HasSuffix(name, "_test.sg")
}
