package check

import (
	"slices"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// callLibrary calls a function of the library: of those with the same name the
// one that takes as many values, and the first of them. First is the type of
// the first argument if it has been checked.
func (c *checker) callLibrary(fs []*Object, fun syntax.Expr, written []*types.Type, args []syntax.Expr,
	first *types.Type, x *syntax.CallExpr, want *types.Type) *types.Type {
	o := fs[0]
	if len(fs) > 1 {
		var fitting []*Object
		for _, f := range fs {
			if len(f.Type.Elems) == len(args)+1 {
				fitting = append(fitting, f)
			}
		}
		if len(fitting) == 1 {
			o = fitting[0]
		} else if len(fitting) > 1 {
			if first == nil {
				first = c.expr(args[0], nil)
			}
			o = c.overload(fitting, first)
			if o == nil {
				return c.noOverload(fitting, fun, args, first)
			}
		}
	}
	c.use(fun, o)
	t := c.instantiate(o, fun, written)
	c.record(fun, t)
	if _, method := fun.(*syntax.FieldExpr); method && o.Kind == LibraryFunc && len(args) == len(x.Args)+1 {
		return c.applyChecked(o.Name, o, t, args, first, x, want)
	}
	return c.applyChecked(o.Name, o, t, args, first, x, want)
}

// use notes which of several functions of a name is called.
func (c *checker) use(fun syntax.Expr, o *Object) {
	switch f := fun.(type) {
	case *syntax.Ident:
		c.info.Uses[f] = o
	case *syntax.Path:
		c.info.Uses[f.Last()] = o
	case *syntax.FieldExpr:
		c.info.Uses[f.Name] = o
	}
}

// overload is the first function whose first parameter fits, nil if none does
// or if nothing is known about what is given.
func (c *checker) overload(fs []*Object, first *types.Type) *Object {
	if r := first.Resolve(); r.Kind == types.Var {
		return nil
	}
	for _, f := range fs {
		if could(first, f.Type.Elems[0]) {
			return f
		}
	}
	return nil
}

func (c *checker) noOverload(fs []*Object, fun syntax.Expr, args []syntax.Expr, first *types.Type) *types.Type {
	c.record(fun, types.Of(types.Invalid))
	for _, a := range args[1:] {
		c.expr(a, nil)
	}
	r := first.Resolve()
	if r.Kind == types.Var {
		c.unknown(args[0], "")
		return types.Of(types.Invalid)
	}
	var takes []string
	for _, f := range fs {
		if s := "`" + f.Type.Elems[0].String() + "`"; !slices.Contains(takes, s) {
			takes = append(takes, s)
		}
	}
	help := c.remedy(r, fs[0].Type.Elems[0])
	c.fault(args[0], CodeType, help, "`%s` takes %s, and this is `%s`", fs[0].Name, choices(takes), r)
	return types.Of(types.Invalid)
}

// callValue calls a value, which should be a function.
func (c *checker) callValue(fun syntax.Expr, t *types.Type, x *syntax.CallExpr) *types.Type {
	c.record(fun, t)
	r := t.Resolve()
	switch r.Kind {
	case types.Func:
		return c.apply("the function", nil, r, x.Args, x, nil)
	case types.Var:
		params := make([]*types.Type, len(x.Args))
		for i, a := range x.Args {
			params[i] = c.expr(a, nil)
		}
		result := types.NewVar()
		if !types.Unify(r, types.FuncOf(params, result, false)) {
			c.unknown(fun, "")
			return types.Of(types.Invalid)
		}
		return result
	}
	for _, a := range x.Args {
		c.expr(a, nil)
	}
	if r.Kind != types.Invalid && r.Kind != types.Never {
		c.fault(fun, CodeCall, "", "this is `%s`, and no function", r)
	}
	return types.Of(types.Invalid)
}

// apply checks what a function of type t is given.
func (c *checker) apply(name string, o *Object, t *types.Type, args []syntax.Expr, x *syntax.CallExpr,
	want *types.Type) *types.Type {
	return c.applyChecked(name, o, t, args, nil, x, want)
}

// applyChecked is apply, where the first argument may have been checked: then
// its type is given.
func (c *checker) applyChecked(name string, o *Object, t *types.Type, args []syntax.Expr, first *types.Type,
	x *syntax.CallExpr, want *types.Type) *types.Type {
	params, result := t.Params(), t.Result()
	fails := t.Fails
	// What the call is for tells what its arguments are: unwrap_or(x, []).
	if want != nil && o != nil && len(o.params) > 0 && want.Resolve().Kind != types.Var &&
		result.Resolve().Kind != types.Var {
		if could(result, want.Resolve()) && could(want, result.Resolve()) {
			types.Unify(result, want)
		}
	}
	library := o != nil && o.Library != nil
	given := make([]*types.Type, len(args))
	check := func(i int) {
		a := args[i]
		var hint *types.Type
		if i < len(params) {
			hint = params[i]
		}
		got := first
		if i > 0 || first == nil {
			if i == 0 && o != nil && library && o.Library.Changes {
				got = c.place(a)
			} else if o != nil && library && o.Name == "assert_fails" {
				got = c.covered(a, hint)
			} else {
				got = c.expr(a, hint)
			}
		} else if library && o.Library.Changes {
			got = c.place(a)
		}
		given[i] = got
		if i >= len(params) {
			return
		}
		want := params[i]
		if r := got.Resolve(); library && r.Kind == types.Func && r.Fails && want.Resolve().Kind == types.Func {
			// What a function of the library is given may fail: then it does.
			w := *want.Resolve()
			w.Fails = true
			want, fails = &w, true
		}
		c.fits(a, got, want, why{name: name, arg: i + 1})
	}
	// Functions come last: what their parameters are follows from the rest.
	for i, a := range args {
		if _, ok := a.(*syntax.ClosureExpr); !ok {
			check(i)
		}
	}
	for i, a := range args {
		if _, ok := a.(*syntax.ClosureExpr); ok {
			check(i)
		}
	}
	if len(args) != len(params) && !c.bad[x.File] {
		help := ""
		if o != nil {
			help = o.synopsis()
		}
		c.fault(x, CodeArguments, help, "%s takes %s, and is given %d", called(name, o),
			countOf(len(params), "value"), len(args))
	}
	if library {
		switch o.Name {
		case "print", "print_err", "str":
			if len(given) > 0 {
				c.require(printable, given[0], args[0], 0)
			}
		case "json_stringify":
			if len(given) > 0 {
				c.require(kept, given[0], args[0], 0)
			}
		}
	}
	if fails {
		c.fallible(x, called(name, o))
	}
	return result
}

func called(name string, o *Object) string {
	if o == nil {
		return name
	}
	if o.Tool != nil {
		return "`" + o.Tool.Name + "." + name + "`"
	}
	return "`" + brief(name) + "`"
}

// synopsis returns how a function is called, for help.
func (o *Object) synopsis() string {
	if o.Library != nil {
		return "it is " + o.Library.Signature
	}
	d, ok := o.Node.(*syntax.FuncDecl)
	if !ok || len(d.Params) > 12 {
		return ""
	}
	s := "it is " + o.Name + "("
	for i, p := range d.Params {
		if i > 0 {
			s += ", "
		}
		s += p.Name.Name + ": " + o.Type.Elems[i].String()
	}
	return s + ")"
}
