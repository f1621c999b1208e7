package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

type bodyKind uint8

const (
	funcBody bodyKind = iota
	handlerBody
	closureBody
	testBody
	valueBody // the value of a constant, a belief or a setting of a child
)

// body is the context of statements and expressions.
type body struct {
	kind    bodyKind
	outer   *body // of a closure
	scope   typeScope
	agent   *Agent // nil outside of an agent
	event   syntax.Event
	name    string      // of the function
	result  *types.Type // type of returned values; nil if none can be returned
	fails   bool        // a function may fail; a closure does
	cover   *cover
	loops   []bool // enclosing loops, innermost last: whether a break leaves it
	closure *syntax.ClosureExpr
	env     *env
	// children are the named children of a supervisor while their initial values are checked.
	children map[string]*Object
}

// env holds the variables in scope, for a body and the closures in it.
type env struct {
	vars    map[string]*Object
	undo    []shadowed
	pending []pending
	unknown map[string]bool // unknown names that have been reported
}

type shadowed struct {
	name   string
	before *Object
}

// cover is a try, catch or retry around an expression, which handles its failure.
type cover struct {
	stops  bool // stops errors: catch, retry, assert_fails
	used   bool // something inside can fail
	direct bool // and is not under a nested try
	outer  *cover
}

// in checks something in a new body.
func (c *checker) in(b *body, check func()) {
	before := c.current
	if b.env == nil {
		b.env = &env{vars: map[string]*Object{}, unknown: map[string]bool{}}
	}
	c.current = b
	check()
	if b.outer == nil {
		c.resolvePending(b.env)
	}
	c.current = before
}

// variable declares a variable, which is in scope from here on.
func (c *checker) variable(kind ObjectKind, name *syntax.Ident, node syntax.Node, t *types.Type) *Object {
	b := c.current
	o := &Object{Kind: kind, Name: name.Name, Span: name.Span, Node: node, Module: b.scope.module, Type: t, body: b}
	c.info.Defs[name] = o
	if name.Name != "_" && name.Name != "" {
		b.env.undo = append(b.env.undo, shadowed{name.Name, b.env.vars[name.Name]})
		b.env.vars[name.Name] = o
	}
	return o
}

// mark and release delimit a scope of variables.
func (c *checker) mark() int { return len(c.current.env.undo) }

func (c *checker) release(mark int) {
	e := c.current.env
	for i := len(e.undo) - 1; i >= mark; i-- {
		if before := e.undo[i].before; before != nil {
			e.vars[e.undo[i].name] = before
		} else {
			delete(e.vars, e.undo[i].name)
		}
	}
	e.undo = e.undo[:mark]
}

// local returns the variable with this name, nil if there is none. Closures between this place and
// its declaration capture it.
func (c *checker) local(id *syntax.Ident) *Object {
	o := c.current.env.vars[id.Name]
	if o == nil {
		return nil
	}
	c.info.Uses[id] = o
	for b := c.current; b != nil && b != o.body && b.closure != nil; b = b.outer {
		o.Captured = true
		if key := (capture{b.closure, o}); !c.captured[key] {
			c.captured[key] = true
			c.info.Captures[b.closure] = append(c.info.Captures[b.closure], o)
		}
	}
	return o
}

type capture struct {
	closure *syntax.ClosureExpr
	object  *Object
}

// bodies checks everything that has statements or values.
func (c *checker) bodies() {
	c.eachDecl(func(m *Module, d syntax.Decl) {
		if d, ok := d.(*syntax.ConstDecl); ok {
			c.constant(c.info.Defs[d.Name])
		}
	})
	c.eachDecl(func(m *Module, d syntax.Decl) {
		switch d := d.(type) {
		case *syntax.FuncDecl:
			c.function(m, d)
		case *syntax.AgentDecl:
			c.agent(c.agents[c.info.Defs[d.Name]])
		case *syntax.TestDecl:
			c.test(m, d)
		}
	})
	c.closeOutputs()
	for _, s := range c.info.Supervisors {
		c.supervisor(s)
	}
	c.nesting()
	for _, s := range c.info.Supervisors {
		c.warnUnnamed(s)
	}
	for i, m := range c.info.Modules {
		c.entry(m, i == 0)
	}
}

func (c *checker) function(m *Module, d *syntax.FuncDecl) {
	o := c.info.Defs[d.Name]
	b := &body{kind: funcBody, scope: o.scope, name: d.Name.Name, result: o.Type.Result(), fails: d.Fails}
	b.scope.module = m
	c.in(b, func() {
		for i, p := range d.Params {
			if first := b.env.vars[p.Name.Name]; first != nil {
				c.duplicate(p.Name, CodeDuplicate, first.Span, "give one of them another name",
					"two parameters are called `%s`", truncate(p.Name.Name))
			}
			c.variable(Parameter, p.Name, p, o.Type.Elems[i])
		}
		if d.Body != nil {
			c.returnValue(d.Body, o.Type.Result(), d)
		}
	})
}

// returnValue checks the block of a function, whose value is its result.
func (c *checker) returnValue(block *syntax.Block, result *types.Type, d *syntax.FuncDecl) {
	kind := result.Resolve().Kind
	if kind == types.Unit {
		c.block(block, nil, false)
		return
	}
	got := c.block(block, result, true).Resolve()
	if got.Kind == types.Never || got.Kind == types.Invalid || kind == types.Invalid {
		return
	}
	if block.Tail != nil {
		w := reason{what: "is the result type of `" + truncate(d.Name.Name) + "`"}
		if got.Kind == types.Unit {
			w.help = "end it with return and a value"
			if branch, ok := block.Tail.(*syntax.IfExpr); ok && branch.Else == nil {
				w.help = "without else this has no value if the condition is false: add else { … }, or end the " +
					"function with return and a value"
			}
		}
		c.fits(block.Tail, got, result, w)
		return
	}
	if d.Result == nil || c.malformed[block.File] {
		return
	}
	help := "end it with return and a value"
	if n := len(block.Stmts); n > 0 {
		if x, ok := block.Stmts[n-1].(*syntax.ExprStmt); ok {
			if t := c.info.Types[x.X]; t != nil && types.Equal(t, result) {
				help = "remove the semicolon after its last expression, or write return before it"
			}
		}
	}
	c.fault(d.Name, CodeType, help, "`%s` returns `%s`, and can end without a value", truncate(d.Name.Name), result)
}

func (c *checker) test(m *Module, d *syntax.TestDecl) {
	for _, a := range d.Attrs {
		if a.Name != "serial" {
			c.fault(a, CodeUnsupported, "tests have @serial, or nothing", "there is no annotation `@%s`",
				truncate(a.Name))
		}
	}
	c.in(&body{kind: testBody, scope: typeScope{module: m}, result: types.Of(types.Unit)},
		func() { c.block(d.Body, nil, false) })
}

// constant infers the type of a constant, and of those that it depends on.
func (c *checker) constant(o *Object) {
	d, ok := o.Node.(*syntax.ConstDecl)
	if !ok || o.state == done {
		return
	}
	if o.state == active {
		c.fault(d.Name, CodeConstCycle, "give one of them a value of its own", "constant `%s` is made of itself",
			truncate(o.Name))
		if o.Type == nil {
			o.Type = types.Of(types.Invalid)
		}
		return
	}
	o.state = active
	c.in(&body{kind: valueBody, scope: typeScope{module: o.Module}}, func() {
		if o.Type != nil {
			c.expect(d.Value, o.Type, reason{what: "is the type of `" + truncate(o.Name) + "`"})
		} else {
			t := c.expr(d.Value, nil)
			if o.Type == nil {
				o.Type = t
			}
		}
		c.isConstant(d.Value)
	})
	o.state = done
	c.info.Consts = append(c.info.Consts, o)
}

// isConstant reports parts of an expression that are not constant.
func (c *checker) isConstant(x syntax.Expr) {
	syntax.Inspect(x, func(n syntax.Node) bool {
		e, ok := n.(syntax.Expr)
		if !ok {
			return true
		}
		switch e := e.(type) {
		case *syntax.IntLit, *syntax.FloatLit, *syntax.BoolLit, *syntax.StringLit, *syntax.TemplateLit,
			*syntax.ListLit, *syntax.MapLit, *syntax.TupleLit, *syntax.RecordLit, *syntax.ParenExpr,
			*syntax.UnaryExpr, *syntax.BinaryExpr, *syntax.Ident, *syntax.Path, *syntax.BadExpr, *syntax.FieldExpr:
			return true
		case *syntax.CallExpr:
			if o := c.info.Uses[calleeName(e.Fun)]; o == nil || o.Kind == VariantName {
				return true
			}
		}
		c.fault(e, CodeConst, "make it a function, or use only literals, operators and other constants",
			"the value of a constant is known before the program runs")
		return false
	})
}
