package check

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// callLibrary calls a function of the library. Of several functions with the same name it chooses
// the first that fits the number of arguments and the type of the first one. first is the type of
// the first argument if that is already checked.
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
			if o = overload(fitting, first); o == nil {
				return c.noOverload(fitting, fun, args, first)
			}
		}
	}
	c.use(fun, o)
	t := c.instantiate(o, fun, written)
	c.record(fun, t)
	return c.apply(o.Name, o, t, args, first, x, want)
}

// use records which overload is called.
func (c *checker) use(fun syntax.Expr, o *Object) {
	if id := calleeName(fun); id != nil {
		c.info.Uses[id] = o
	}
}

// calleeName returns the name of a called function, nil if it has none.
func calleeName(fun syntax.Expr) *syntax.Ident {
	switch f := fun.(type) {
	case *syntax.Ident:
		return f
	case *syntax.Path:
		return f.Last()
	case *syntax.FieldExpr:
		return f.Name
	}
	return nil
}

// overload returns the first function whose first parameter fits. It returns nil if none does or if
// the type of the argument is unknown.
func overload(fs []*Object, first *types.Type) *Object {
	i := slices.IndexFunc(fs, func(f *Object) bool { return mayFit(first, f.Type.Elems[0]) })
	if i < 0 || first.Resolve().Kind == types.Var {
		return nil
	}
	return fs[i]
}

func (c *checker) noOverload(fs []*Object, fun syntax.Expr, args []syntax.Expr, first *types.Type) *types.Type {
	c.record(fun, types.Of(types.Invalid))
	c.exprs(args[1:])
	r := first.Resolve()
	if r.Kind == types.Var {
		return c.unknown(args[0], "")
	}
	var takes []string
	for _, f := range fs {
		if s := "`" + f.Type.Elems[0].String() + "`"; !slices.Contains(takes, s) {
			takes = append(takes, s)
		}
	}
	help := c.remedy(r, fs[0].Type.Elems[0])
	return c.invalid(args[0], CodeType, help, "`%s` takes %s, and this is `%s`", fs[0].Name, choices(takes), r)
}

// callValue calls a value, which should be a function.
func (c *checker) callValue(fun syntax.Expr, t *types.Type, x *syntax.CallExpr) *types.Type {
	c.record(fun, t)
	r := t.Resolve()
	switch r.Kind {
	case types.Func:
		return c.apply("the function", nil, r, x.Args, nil, x, nil)
	case types.Var:
		result := types.NewVar()
		if !types.Unify(r, types.FuncOf(c.exprs(x.Args), result, false)) {
			return c.unknown(fun, "")
		}
		return result
	}
	c.exprs(x.Args)
	if r.Kind != types.Invalid && r.Kind != types.Never {
		c.fault(fun, CodeCall, "", "this is `%s`, not a function", r)
	}
	return types.Of(types.Invalid)
}

// apply checks the arguments of a function of type t. first is the type of the first argument if
// that is already checked.
func (c *checker) apply(name string, o *Object, t *types.Type, args []syntax.Expr, first *types.Type,
	x *syntax.CallExpr, want *types.Type) *types.Type {
	params, result := t.Params(), t.Result()
	fails := t.Fails
	// The expected result determines the types of arguments: unwrap_or(x, []).
	if want != nil && o != nil && len(o.params) > 0 && want.Resolve().Kind != types.Var &&
		result.Resolve().Kind != types.Var {
		if mayFit(result, want.Resolve()) && mayFit(want, result.Resolve()) {
			types.Unify(result, want)
		}
	}
	library := o != nil && o.Library != nil
	given := make([]*types.Type, len(args))
	check := func(i int) {
		a := args[i]
		var got, hint *types.Type
		if i < len(params) {
			hint = params[i]
		}
		switch {
		case i == 0 && library && o.Library.Changes:
			got = c.place(a)
		case i == 0 && first != nil:
			got = first
		case library && o.Name == "assert_fails":
			got = c.covered(a, hint)
		default:
			got = c.expr(a, hint)
		}
		given[i] = got
		if i >= len(params) {
			return
		}
		want := params[i]
		if r := got.Resolve(); library && r.Kind == types.Func && r.Fails && want.Resolve().Kind == types.Func {
			// A library function fails if a function passed to it does.
			w := *want.Resolve()
			w.Fails = true
			want, fails = &w, true
		}
		c.fits(a, got, want, reason{function: called(name, o), arg: i + 1})
	}
	// Closures come last: the types of their parameters follow from the other arguments.
	for _, closures := range []bool{false, true} {
		for i, a := range args {
			if _, ok := a.(*syntax.ClosureExpr); ok == closures {
				check(i)
			}
		}
	}
	if len(args) != len(params) && !c.malformed[x.File] {
		help := ""
		if o != nil {
			help = o.synopsis()
		}
		c.fault(x, CodeArguments, help, "%s takes %s, and is given %d", called(name, o),
			countOf(len(params), "value"), len(args))
	}
	if library && len(given) > 0 {
		switch o.Name {
		case "print", "print_err", "str":
			c.require(printable, given[0], args[0], 0)
		case "json_stringify":
			c.require(persistable, given[0], args[0], 0)
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
	return "`" + truncate(name) + "`"
}

// synopsis returns the signature of a function, for help.
func (o *Object) synopsis() string {
	if o.Library != nil {
		return "it is " + o.Library.Signature
	}
	d, ok := o.Node.(*syntax.FuncDecl)
	if !ok || len(d.Params) > 12 {
		return ""
	}
	params := make([]string, len(d.Params))
	for i, p := range d.Params {
		params[i] = p.Name.Name + ": " + o.Type.Elems[i].String()
	}
	return "it is " + o.Name + "(" + strings.Join(params, ", ") + ")"
}
