package check

import (
	"github.com/coppice-dev/coppice/internal/sage/syntax"
	"github.com/coppice-dev/coppice/internal/sage/types"
)

// expr finds out the type of an expression. Want is what it should be, as a
// hint to what is in it; nil if nothing is known.
func (c *checker) expr(x syntax.Expr, want *types.Type) *types.Type {
	t := c.exprType(x, want)
	if len(t.Elems) > 0 && types.TooLarge(t) {
		c.fault(x, CodeTooLarge, "give a name to a record of its parts", "the type of this has more than %d parts", types.MaxSize)
		t = types.Of(types.Invalid)
	}
	c.record(x, t)
	return t
}

// record remembers the type of an expression.
func (c *checker) record(x syntax.Expr, t *types.Type) {
	c.info.Types[x] = t
	if t.Kind == types.Var || len(t.Elems) > 0 {
		c.open = append(c.open, x)
	}
}

func (c *checker) exprType(x syntax.Expr, want *types.Type) *types.Type {
	switch x := x.(type) {
	case *syntax.Ident:
		return c.name(x, want)
	case *syntax.Path:
		return c.path(x, want)
	case *syntax.IntLit:
		return types.Of(types.Int)
	case *syntax.FloatLit:
		return types.Of(types.Float)
	case *syntax.BoolLit:
		return types.Of(types.Bool)
	case *syntax.StringLit:
		return types.Of(types.String)
	case *syntax.TemplateLit:
		for _, e := range x.Exprs {
			c.require(printable, c.expr(e, nil), e, 0)
		}
		return types.Of(types.String)
	case *syntax.ListLit:
		return c.list(x, want)
	case *syntax.MapLit:
		return c.mapLit(x, want)
	case *syntax.TupleLit:
		return c.tuple(x, want)
	case *syntax.RecordLit:
		return c.recordLit(x, want)
	case *syntax.ClosureExpr:
		return c.closure(x, want)
	case *syntax.ParenExpr:
		return c.expr(x.X, want)
	case *syntax.UnaryExpr:
		if x.Op == syntax.Not {
			c.expect(x.X, types.Of(types.Bool), why{what: "is what `!` is for", help: conditionHelp})
			return types.Of(types.Bool)
		}
		t := c.expr(x.X, want)
		c.require(numeric, t, x.X, x.Op)
		return t
	case *syntax.BinaryExpr:
		return c.binary(x, want)
	case *syntax.CallExpr:
		return c.call(x, want)
	case *syntax.FieldExpr:
		return c.fieldExpr(x, want)
	case *syntax.ElemExpr:
		return c.element(x, c.expr(x.X, nil))
	case *syntax.IndexExpr:
		return c.index(x, c.expr(x.X, nil))
	case *syntax.BlockExpr:
		return c.block(x.Block, want, true)
	case *syntax.IfExpr:
		return c.ifExpr(x, want, true)
	case *syntax.MatchExpr:
		return c.match(x, want, true)
	case *syntax.SelfExpr:
		if c.self(x) {
			c.fault(x, CodeSelf, "a belief is written self.name", "`self` alone has no value")
		}
		return types.Of(types.Invalid)
	case *syntax.BreakExpr, *syntax.ContinueExpr, *syntax.ReturnExpr:
		c.leave(x)
		return types.Of(types.Never)
	case *syntax.TryExpr:
		return c.try(x, want)
	case *syntax.CatchExpr:
		return c.catch(x, want, true)
	case *syntax.FailExpr:
		c.failure(x.X)
		c.propagate(x, "fail")
		return types.Of(types.Never)
	case *syntax.RetryExpr:
		return c.retry(x, want)
	}
	return c.agentExpr(x, want)
}

// discard checks an expression whose value is not used, and reports whether
// the program never gets behind it.
func (c *checker) discard(x syntax.Expr) (never bool) {
	var t *types.Type
	switch e := x.(type) {
	case *syntax.BlockExpr:
		t = c.block(e.Block, nil, false)
	case *syntax.IfExpr:
		t = c.ifExpr(e, nil, false)
	case *syntax.MatchExpr:
		t = c.match(e, nil, false)
	case *syntax.CatchExpr:
		t = c.catch(e, nil, false)
	default:
		return c.expr(x, nil).Kind == types.Never
	}
	c.record(x, t)
	return t.Kind == types.Never
}

// name is the type of what a name stands for.
func (c *checker) name(id *syntax.Ident, want *types.Type) *types.Type {
	if o := c.local(id); o != nil {
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
	c.unknownName(id)
	return types.Of(types.Invalid)
}

func (c *checker) unknownName(id *syntax.Ident) {
	if id.Name == "" || c.current.env.unknown[id.Name] {
		return
	}
	c.current.env.unknown[id.Name] = true
	m := c.current.scope.module
	if a := c.current.agent; a != nil && a.Belief(id.Name) != nil {
		c.fault(id, CodeName, "write self."+id.Name, "`%s` is a belief, which is not known without self", id.Name)
		return
	}
	help := c.elsewhere(m, id.Name)
	if help == "" {
		switch id.Name {
		case "null", "nil", "none", "undefined", "Nil", "NULL":
			help = "a value that may be missing is an Option: None, or Some(x)"
		case "println", "printf", "puts", "echo", "log_info", "console":
			help = "did you mean `print`?"
		case "this":
			help = "did you mean `self`?"
		case "True", "TRUE":
			help = "did you mean `true`?"
		case "False", "FALSE":
			help = "did you mean `false`?"
		default:
			names := append(c.variables(), c.names(m, Function, LibraryFunc, Const, AgentName)...)
			help = c.meant(id.Name, names)
		}
	}
	c.fault(id, CodeName, help, "there is nothing called `%s` here", brief(id.Name))
}

// variant is the variant that a name alone stands for: of the enum that is
// wanted, of one of the language, or the only one that is known. Nil if there
// is none; an error if there are several.
func (c *checker) variant(id *syntax.Ident, want *types.Type) *Object {
	if id.Name == "" || id.Name[0] < 'A' || id.Name[0] > 'Z' {
		return nil
	}
	if want != nil {
		if want = want.Resolve(); want.Kind == types.Enum {
			if o := c.enums[want.Decl]; o != nil && o.members[id.Name] != nil {
				c.info.Uses[id] = o.members[id.Name]
				return o.members[id.Name]
			}
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
		c.fault(id, CodeName, "write "+found[0].Parent.Name+"::"+id.Name, "`%s` is a variant of `%s` and of `%s`", id.Name, found[0].Parent.Name, found[1].Parent.Name)
		// Which of them is meant does not matter any more.
	}
	c.info.Uses[id] = found[0]
	return found[0]
}

// variantsNamed are the variants of the enums that a module knows, by name.
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

// path is the type of what a path stands for.
func (c *checker) path(p *syntax.Path, want *types.Type) *types.Type {
	if len(p.Segments) == 1 {
		if c.current.env.vars[p.Segments[0].Name.Name] == nil && c.global(p.Segments[0].Name.Name, c.current.scope.module) == nil {
			c.unknownName(p.Segments[0].Name)
			return types.Of(types.Invalid)
		}
	}
	o := c.pathObject(p, c.current.scope.module)
	if o == nil {
		return types.Of(types.Invalid)
	}
	return c.value(o, p, c.pathArgs(p, o), want)
}

// pathArgs are the types that are written in a path: behind the enum or behind
// the variant, behind the function.
func (c *checker) pathArgs(p *syntax.Path, o *Object) []*types.Type {
	var args []syntax.Type
	for i, seg := range p.Segments {
		if len(seg.Args) == 0 {
			continue
		}
		last := i == len(p.Segments)-1
		if args != nil || !last && !(o.Kind == VariantName && i == len(p.Segments)-2) {
			c.fault(seg.Name, CodeTypeName, "", "no types can stand behind `%s`", brief(seg.Name.Name))
			return nil
		}
		args = seg.Args
	}
	return c.typeList(args, c.current.scope)
}

// instance is what type parameters are in one place: the types that are
// written there, or ones that are found out.
func (c *checker) instance(at syntax.Node, name string, params, written []*types.Type) []*types.Type {
	if len(written) == len(params) && written != nil {
		return written
	}
	if written != nil {
		c.fault(at, CodeTypeName, "", "`%s` takes %s, and is given %d", brief(name), countOf(len(params), "type"), len(written))
	}
	args := make([]*types.Type, len(params))
	for i := range args {
		args[i] = types.NewVar()
	}
	return args
}

// value is the type of an object that is used as a value.
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
		c.fault(at, CodeName, "a value of it is written "+o.Name+" { field: value }", "`%s` is a record, and no value", o.Name)
	case AgentName:
		c.fault(at, CodeName, "start one with summon "+o.Name+" { }", "`%s` is an agent, and no value", o.Name)
	case ToolName:
		c.fault(at, CodeName, "call one of its functions: "+o.Name+".f(…)", "`%s` is a tool, and no value", o.Name)
	default:
		c.fault(at, CodeName, "", "`%s` is %s, and no value", o.Name, o.Kind.article())
	}
	return types.Of(types.Invalid)
}

func (c *checker) instantiate(o *Object, at syntax.Expr, written []*types.Type) *types.Type {
	if len(o.params) == 0 && written == nil {
		return o.Type
	}
	return types.Subst(o.Type, o.params, c.instance(at, o.Name, o.params, written))
}

// overloadAs is the function of the library that has the type that is wanted,
// or the first of its name.
func (c *checker) overloadAs(o *Object, want *types.Type) *Object {
	fs := c.universe.functions[o.Name]
	if want == nil || len(fs) == 1 || want.Resolve().Kind != types.Func {
		return o
	}
	params := want.Resolve().Params()
	for _, f := range fs {
		of := f.Type.Params()
		if len(of) != len(params) {
			continue
		}
		ok := true
		for i := range of {
			ok = ok && could(params[i], of[i])
		}
		if ok {
			return f
		}
	}
	return o
}

// could reports whether a type may be that of a parameter of a function of the
// library, as far as it is known.
func could(t, param *types.Type) bool {
	t = t.Resolve()
	if param.Kind == types.Param || t.Kind == types.Var || t.Kind == types.Invalid || t.Kind == types.Never {
		return true
	}
	if t.Kind != param.Kind || t.Decl != param.Decl || len(t.Elems) != len(param.Elems) {
		return false
	}
	for i := range t.Elems {
		if !could(t.Elems[i], param.Elems[i]) {
			return false
		}
	}
	return true
}

// enumType is an enum as it is used in one place.
func (c *checker) enumType(o *Object, at syntax.Expr, written []*types.Type, want *types.Type) *types.Type {
	decl := o.Parent.Type.Decl
	t := types.Declared(types.Enum, decl, c.instance(at, decl.Name, decl.Params, written))
	if want != nil && len(decl.Params) > 0 {
		if want = want.Resolve(); want.Kind == types.Enum && want.Decl == decl {
			types.Unify(t, want)
		}
	}
	return t
}

// variantValue is the type of a variant as a value: of one that carries
// something it is a function.
func (c *checker) variantValue(o *Object, at syntax.Expr, written []*types.Type, want *types.Type) *types.Type {
	if want != nil && want.Resolve().Kind == types.Func {
		want = want.Resolve().Result()
	}
	t := c.enumType(o, at, written, want)
	if payload := t.Payload(o.Index); len(payload) > 0 {
		return types.FuncOf(payload, t, false)
	}
	return t
}

func (c *checker) list(x *syntax.ListLit, want *types.Type) *types.Type {
	elem := types.NewVar()
	if want != nil {
		if want = want.Resolve(); want.Kind == types.List {
			elem = want.Elems[0]
		}
	}
	for i, e := range x.Elems {
		w := why{what: "is what the list is of"}
		if i > 0 {
			w.what = "is what the elements before it are"
		}
		c.expect(e, elem, w)
	}
	return types.ListOf(elem)
}

func (c *checker) mapLit(x *syntax.MapLit, want *types.Type) *types.Type {
	k, v := types.NewVar(), types.NewVar()
	if want != nil {
		if want = want.Resolve(); want.Kind == types.Map {
			k, v = want.Elems[0], want.Elems[1]
		}
	}
	for i, e := range x.Entries {
		w := why{what: "is what the map is of"}
		if i > 0 {
			w.what = "is what it is in the entries before"
		}
		c.expect(e.Key, k, w)
		c.expect(e.Value, v, w)
	}
	if len(x.Entries) > 0 {
		c.require(key, k, x.Entries[0].Key, 0)
	}
	return types.MapOf(k, v)
}

func (c *checker) tuple(x *syntax.TupleLit, want *types.Type) *types.Type {
	hint := func(int) *types.Type { return nil }
	if want != nil {
		if want = want.Resolve(); want.Kind == types.Tuple && len(want.Elems) == len(x.Elems) {
			hint = func(i int) *types.Type { return want.Elems[i] }
		}
	}
	elems := make([]*types.Type, len(x.Elems))
	for i, e := range x.Elems {
		elems[i] = c.expr(e, hint(i))
		if elems[i].Kind == types.Never {
			elems[i] = types.NewVar()
		}
	}
	return types.TupleOf(elems)
}

// recordLit is Name { field: value }.
func (c *checker) recordLit(x *syntax.RecordLit, want *types.Type) *types.Type {
	o := c.pathObject(x.Name, c.current.scope.module)
	var t *types.Type
	switch {
	case o == nil:
		if len(x.Name.Segments) == 1 {
			name := x.Name.Last()
			help := c.elsewhere(c.current.scope.module, name.Name)
			if help == "" {
				help = c.meantOr(name.Name, c.names(c.current.scope.module, RecordName), "the records are ")
			}
			if name.Name != "" {
				c.fault(x.Name, CodeTypeName, help, "there is no record `%s`", brief(name.Name))
			}
		}
	case o.Kind == AgentName:
		c.fault(x.Name, CodeName, "write summon before it", "`%s` is an agent, which is started with summon", o.Name)
	case o.Kind != RecordName:
		c.fault(x.Name, CodeTypeName, "", "`%s` is %s, and no record", brief(x.Name.String()), o.Kind.article())
	default:
		decl := o.Type.Decl
		t = types.Declared(types.Record, decl, c.instance(x.Name, decl.Name, decl.Params, c.pathArgs(x.Name, o)))
		if want != nil && len(decl.Params) > 0 {
			if want = want.Resolve(); want.Kind == types.Record && want.Decl == decl {
				types.Unify(t, want)
			}
		}
	}
	if t == nil {
		for _, f := range x.Inits {
			c.expr(f.Value, nil)
		}
		return types.Of(types.Invalid)
	}
	given := make(map[string]*syntax.FieldInit, len(x.Inits))
	for _, f := range x.Inits {
		name := f.Name.Name
		field := o.members[name]
		if field == nil {
			c.expr(f.Value, nil)
			if name != "" {
				c.fault(f.Name, CodeField, c.meantOr(name, fieldNames(o), "its fields are "), "record `%s` has no field `%s`", o.Name, brief(name))
				given[""] = f
			}
			continue
		}
		c.info.Uses[f.Name] = field
		if first := given[name]; first != nil {
			c.twice(f.Name, CodeTwice, first.Name.Span, "remove one of them", "field `%s` is given twice", brief(name))
		}
		given[name] = f
		c.expect(f.Value, t.FieldType(field.Index), why{what: "is the type of the field"})
	}
	var missing []string
	for _, f := range o.Type.Decl.Fields {
		if given[f.Name] == nil {
			missing = append(missing, "`"+brief(f.Name)+"`")
		}
	}
	if len(missing) > 0 && given[""] == nil && !c.bad[x.File] {
		c.fault(x.Name, CodeField, "give it in the braces", "record `%s` needs %s", o.Name, choices(missing))
	}
	return t
}

func fieldNames(o *Object) []string {
	names := make([]string, len(o.Type.Decl.Fields))
	for i, f := range o.Type.Decl.Fields {
		names[i] = f.Name
	}
	return names
}

// closure is |x| body.
func (c *checker) closure(x *syntax.ClosureExpr, want *types.Type) *types.Type {
	outer := c.current
	b := &body{kind: closureBody, outer: outer, scope: outer.scope, agent: outer.agent, event: outer.event, closure: x, env: outer.env}
	if want != nil {
		if want = want.Resolve(); want.Kind != types.Func {
			want = nil
		}
	}
	params := make([]*types.Type, len(x.Params))
	var t *types.Type
	c.in(b, func() {
		mark := c.mark()
		for i, p := range x.Params {
			switch {
			case p.Type != nil:
				params[i] = c.typ(p.Type, b.scope)
			case want != nil && len(want.Elems) == len(x.Params)+1:
				params[i] = want.Elems[i]
			default:
				params[i] = types.NewVar()
			}
			c.variable(Parameter, p.Name, p, params[i])
		}
		b.result = types.NewVar()
		if want != nil {
			b.result = want.Result()
		}
		if b.result.Resolve().Kind == types.Unit {
			c.discard(x.Body)
		} else if got := c.expr(x.Body, b.result); got.Kind != types.Never {
			c.fits(x.Body, got, b.result, why{what: "is what the function returns"})
		}
		c.release(mark)
		t = types.FuncOf(params, b.result, b.fails)
	})
	return t
}

// ifExpr is if with or without a value.
func (c *checker) ifExpr(x *syntax.IfExpr, want *types.Type, used bool) *types.Type {
	j := joiner{c: c, want: want, used: used, what: "is what the branch before it gives"}
	var at syntax.Expr = x
	for {
		branch, ok := at.(*syntax.IfExpr)
		if !ok {
			if b, ok := at.(*syntax.BlockExpr); ok {
				t := j.block(b.Block)
				c.record(b, t)
			} else if at != nil {
				j.add(at, c.expr(at, j.hint()))
			}
			break
		}
		c.condition(branch.Cond)
		j.block(branch.Then)
		if branch != x {
			c.record(branch, types.Of(types.Unit))
		}
		if branch.Else == nil {
			if used && j.t != nil && j.t.Resolve().Kind != types.Unit && j.t.Resolve().Kind != types.Invalid {
				c.fault(x, CodeType, "add else { … }", "without else this has no value if the condition is false, and `%s` is expected", j.t)
				return types.Of(types.Invalid)
			}
			j.add(x, types.Of(types.Unit))
			break
		}
		at = branch.Else
	}
	return j.result()
}

// joiner makes one type of those of several branches.
type joiner struct {
	c     *checker
	want  *types.Type
	used  bool
	what  string
	t     *types.Type
	wrong bool // a branch has a type that cannot be known
	any   bool // there was a branch that gets to its end
}

func (j *joiner) hint() *types.Type {
	if j.want != nil {
		return j.want
	}
	return j.t
}

func (j *joiner) block(b *syntax.Block) *types.Type {
	t := j.c.block(b, j.hint(), j.used)
	var at syntax.Node = b
	if b != nil && b.Tail != nil {
		at = b.Tail
	}
	j.add(at, t)
	return t
}

func (j *joiner) add(at syntax.Node, t *types.Type) {
	if t.Resolve().Kind == types.Never {
		return
	}
	j.any = true
	switch {
	case !j.used:
	case t.Resolve().Kind == types.Invalid:
		j.wrong = true
	case j.t == nil:
		j.t = t
	default:
		if !j.c.fits(at, t, j.t, why{what: j.what}) {
			j.wrong = true
		}
	}
}

func (j *joiner) result() *types.Type {
	switch {
	case !j.any:
		return types.Of(types.Never)
	case !j.used:
		return types.Of(types.Unit)
	case j.wrong || j.t == nil:
		return types.Of(types.Invalid)
	}
	return j.t
}

// leave checks break, continue and return.
func (c *checker) leave(x syntax.Expr) {
	b := c.current
	switch x := x.(type) {
	case *syntax.ReturnExpr:
		c.returnExpr(x)
		return
	case *syntax.BreakExpr:
		if len(b.loops) > 0 {
			b.loops[len(b.loops)-1] = true
			return
		}
	default:
		if len(b.loops) > 0 {
			return
		}
	}
	word := "break"
	if _, ok := x.(*syntax.ContinueExpr); ok {
		word = "continue"
	}
	help := "loops are for, while and loop"
	if b.kind == closureBody {
		help = "a function cannot leave the loop around it; return ends only the function"
	}
	c.fault(x, CodeOutside, help, "`%s` stands in no loop", word)
}

func (c *checker) returnExpr(x *syntax.ReturnExpr) {
	b := c.current
	switch b.kind {
	case handlerBody:
		if x.Value != nil {
			c.expr(x.Value, nil)
			c.fault(x, CodeOutside, "what an agent gives to who awaits it is written yield(…)", "a handler returns no value")
		}
		return
	case valueBody:
		c.fault(x, CodeOutside, "", "`return` stands in no function")
		if x.Value != nil {
			c.expr(x.Value, nil)
		}
		return
	}
	if x.Value != nil {
		c.expect(x.Value, b.result, why{what: "is what the function returns"})
		return
	}
	c.fits(x, types.Of(types.Unit), b.result, why{what: "is what the function returns", help: "write the value behind return"})
}
