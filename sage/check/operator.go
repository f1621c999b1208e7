package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

func (c *checker) binary(x *syntax.BinaryExpr, want *types.Type) *types.Type {
	boolean := types.Of(types.Bool)
	switch x.Op {
	case syntax.AndAnd, syntax.OrOr:
		w := reason{what: "is the type of the operands of `" + x.Op.String() + "`", help: conditionHelp}
		c.expect(x.X, boolean, w)
		c.expect(x.Y, boolean, w)
		return boolean
	case syntax.Concat:
		if want != nil && want.Resolve().Kind != types.String && want.Resolve().Kind != types.List {
			want = nil
		}
		t := c.expr(x.X, want)
		return c.concat(x.X, x.Y, t, c.expr(x.Y, t), x)
	case syntax.Equal, syntax.NotEqual:
		if t := c.expr(x.X, nil); c.same(x, t, c.expr(x.Y, t)) {
			c.require(comparable, t, x, x.Op)
		}
		return boolean
	case syntax.Less, syntax.Greater, syntax.LessEqual, syntax.GreaterEqual:
		if t := c.expr(x.X, nil); c.same(x, t, c.expr(x.Y, t)) {
			c.require(ordered, t, x.X, x.Op)
		}
		return boolean
	}
	if want != nil && want.Resolve().Kind != types.Int && want.Resolve().Kind != types.Float {
		want = nil
	}
	t := c.expr(x.X, want)
	got := c.expr(x.Y, t)
	if !c.same(x, t, got) {
		return types.Of(types.Invalid)
	}
	if t.Resolve().Kind == types.Never {
		t = got
	}
	c.require(numeric, t, x.X, x.Op)
	switch t.Resolve().Kind {
	case types.Int, types.Float, types.Var:
		return t
	}
	return types.Of(types.Invalid)
}

// same reports operands of different types.
func (c *checker) same(x *syntax.BinaryExpr, t, got *types.Type) bool {
	if types.Unify(t, got) {
		return true
	}
	l, r := t.Resolve(), got.Resolve()
	var help string
	switch {
	case l.Kind == types.String && x.Op == syntax.Add:
		help = "to join strings, write ++ and str(…), or put it into the string: \"…{x}\""
	case l.Kind == types.Int && r.Kind == types.Float || l.Kind == types.Float && r.Kind == types.Int:
		help = "make both of one type: a number with a point is a Float, int_to_float(…) makes one"
	case x.Op == syntax.Equal || x.Op == syntax.NotEqual || r.Kind == types.Enum:
		help = c.remedy(r, l)
	default:
		help = c.remedy(l, r)
	}
	c.fault(x, CodeOperator, help, "`%s` needs two values of one type; these are `%s` and `%s`", x.Op, l, r)
	return false
}

// concat returns the type of x ++ y.
func (c *checker) concat(x, y syntax.Expr, left, right *types.Type, at syntax.Node) *types.Type {
	l, r := left.Resolve(), right.Resolve()
	for _, side := range []struct {
		at syntax.Expr
		t  *types.Type
	}{{x, l}, {y, r}} {
		switch side.t.Kind {
		case types.Invalid:
			return types.Of(types.Invalid)
		case types.String, types.List, types.Var, types.Never:
		default:
			if types.Equal(side.t, c.universe.failure) && (l.Kind == types.String || r.Kind == types.String) {
				return types.Of(types.String) // the message of the error
			}
			return c.invalid(side.at, CodeOperator, c.remedy(side.t, types.Of(types.String)),
				"`++` joins strings or lists, and this is `%s`", side.t)
		}
	}
	if !types.Unify(l, r) {
		help := c.remedy(r, l)
		if l.Kind == types.List {
			help = "for one element write push(xs, x)"
		}
		return c.invalid(y, CodeOperator, help, "`++` joins two of one type; these are `%s` and `%s`", l, r)
	}
	c.require(joined, l, at, syntax.Concat)
	return l
}

// element returns the type of x.0, where x has type t.
func (c *checker) element(x *syntax.ElemExpr, t *types.Type) *types.Type {
	t = t.Resolve()
	switch t.Kind {
	case types.Tuple:
		if x.Index >= 0 && x.Index < len(t.Elems) {
			return t.Elems[x.Index]
		}
		return c.invalid(x, CodeTupleIndex, "its elements are .0 to ."+itoa(len(t.Elems)-1),
			"`%s` has no element .%d", t, x.Index)
	case types.Invalid, types.Never:
		return types.Of(types.Invalid)
	case types.Var:
		return c.unknown(x.X, "write it where the value comes from: |p: (Int, String)| …")
	}
	help := ""
	if t.Kind == types.List {
		help = "an element of a list is written x[" + itoa(x.Index) + "]"
	}
	return c.invalid(x, CodeNoTuple, help, "only tuples have .%d, and this is `%s`", x.Index, t)
}

// index returns the type of x[i], where x has type t.
func (c *checker) index(x *syntax.IndexExpr, t *types.Type) *types.Type {
	t = t.Resolve()
	switch t.Kind {
	case types.List:
		c.expect(x.Index, types.Of(types.Int), reason{what: "is the type of the index of a list"})
		return t.Elems[0]
	case types.Map:
		c.expect(x.Index, t.Elems[0], reason{what: "is the key type of the map"})
		return t.Elems[1]
	case types.String:
		c.expect(x.Index, types.Of(types.Int), reason{what: "is the type of the index of a string"})
		return t
	}
	c.expr(x.Index, nil)
	switch t.Kind {
	case types.Invalid, types.Never:
	case types.Var:
		c.unknown(x.X, "")
	case types.Tuple:
		c.fault(x, CodeOperator, "an element of a tuple is written x.0",
			"[ ] is for List, Map and String, and this is `%s`", t)
	default:
		help := ""
		if t.Decl == c.universe.option {
			help = "take the value out first, with match or unwrap_or"
		}
		c.fault(x, CodeOperator, help, "[ ] is for List, Map and String, and this is `%s`", t)
	}
	return types.Of(types.Invalid)
}

// self reports self outside of an agent.
func (c *checker) self(at syntax.Node) bool {
	if c.current.agent != nil {
		return true
	}
	help := "give the function what it needs as a parameter"
	if c.current.kind == testBody {
		help = "a test starts agents with summon"
	}
	c.fault(at, CodeSelf, help, "`self` is the agent, and this stands in none")
	return false
}

// belief returns the type of self.name.
func (c *checker) belief(x *syntax.FieldExpr) *types.Type {
	c.record(x.X, types.Of(types.Invalid))
	if !c.self(x) || x.Name.Name == "" {
		return types.Of(types.Invalid)
	}
	a := c.current.agent
	o := a.Belief(x.Name.Name)
	if o == nil {
		help := c.didYouMeanOr(x.Name.Name, a.beliefNames(), "its beliefs are ")
		if help == "" {
			help = "declare it in the braces of the agent: " + truncate(x.Name.Name) + ": Type"
		}
		return c.invalid(x.Name, CodeBelief, help, "agent `%s` has no belief `%s`", a.Object.Name,
			truncate(x.Name.Name))
	}
	c.info.Uses[x.Name] = o
	return o.Type
}

// field returns the type of x.name, where x has type t.
func (c *checker) field(x *syntax.FieldExpr, t *types.Type) *types.Type {
	t = t.Resolve()
	name := x.Name.Name
	switch t.Kind {
	case types.Invalid, types.Never:
		return types.Of(types.Invalid)
	case types.Var:
		return c.unknown(x.X, "write it where the value comes from: |p: Point| …")
	}
	if name == "" {
		return types.Of(types.Invalid)
	}
	if t.Kind == types.Record {
		i := t.Decl.Field(name)
		if i >= 0 {
			if o := c.records[t.Decl]; o != nil {
				c.info.Uses[x.Name] = o.members[name]
			}
			return t.FieldType(i)
		}
		help := c.didYouMeanOr(name, fieldNames(t.Decl), "its fields are ")
		if c.universe.functions[name] != nil {
			help = "a function is called: x." + name + "(…)"
		}
		return c.invalid(x.Name, CodeField, help, "record `%s` has no field `%s`", t, truncate(name))
	}
	help := ""
	switch {
	case c.universe.functions[name] != nil:
		help = "a function is called: x." + name + "(…)"
	case name == "length" || name == "size" || name == "count":
		help = "write len(…)"
	case t.Decl == c.universe.option:
		help = "take the value out first, with match or unwrap_or"
	case t.Decl == c.universe.result:
		help = "take the value out first, with try, catch or match"
	case t.Kind == types.Agent:
		help = "an agent's beliefs are its own: send it a message, or await what it yields"
	case t.Kind == types.Enum:
		help = "take it apart with match"
	}
	return c.invalid(x.Name, CodeField, help, "`%s` has no field `%s`", t, truncate(name))
}

// fieldExpr checks x.name where it is not called.
func (c *checker) fieldExpr(x *syntax.FieldExpr, want *types.Type) *types.Type {
	switch base := x.X.(type) {
	case *syntax.SelfExpr:
		return c.belief(x)
	case *syntax.Ident:
		if o := c.typeName(base); o != nil {
			return c.memberOf(o, base, x, want)
		}
	}
	return c.field(x, c.expr(x.X, nil))
}

// typeName returns the enum, tool or module that a name before a dot refers to, nil if it is a
// value.
func (c *checker) typeName(id *syntax.Ident) *Object {
	if c.current.env.vars[id.Name] != nil {
		return nil
	}
	m := c.current.scope.module
	o := c.global(id.Name, m)
	if o == nil && m.Modules[id.Name] != nil {
		o = m.Modules[id.Name].asObject()
	}
	if o != nil && (o.Kind == EnumName || o.Kind == ToolName || o.Kind == ModuleName) {
		return o
	}
	return nil
}

// memberOf checks Enum.Variant, and reports a member of another object that is not a value.
func (c *checker) memberOf(o *Object, base *syntax.Ident, x *syntax.FieldExpr, want *types.Type) *types.Type {
	c.info.Uses[base] = o
	c.record(base, types.Of(types.Invalid))
	switch o.Kind {
	case EnumName:
		if v := c.member(c.current.scope.module, o, x.Name); v != nil {
			c.info.Uses[x.Name] = v
			return c.variantValue(v, x, nil, want)
		}
	case ToolName:
		if f := c.toolFunc(base, x.Name); f != nil {
			c.fault(x, CodeName, "call it: "+o.Name+"."+f.Name+"(…)", "a function of a tool is not a value")
		}
	default:
		c.fault(x, CodeName, "write "+base.Name+"::"+x.Name.Name, "what is in a module is written with ::")
	}
	return types.Of(types.Invalid)
}
