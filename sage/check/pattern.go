package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// pattern checks a pattern for values of type t and declares its names. It reports whether the
// pattern is valid.
func (c *checker) pattern(p syntax.Pattern, t *types.Type) bool {
	return c.patternIn(p, t, map[string]*Object{})
}

func (c *checker) patternIn(p syntax.Pattern, t *types.Type, names map[string]*Object) bool {
	switch p := p.(type) {
	case *syntax.WildcardPat:
		return true
	case *syntax.BindPat:
		if first := names[p.Name.Name]; first != nil {
			c.duplicate(p.Name, CodeDuplicate, first.Span, "give one of them another name",
				"`%s` is twice in this pattern", truncate(p.Name.Name))
			return false
		}
		names[p.Name.Name] = c.variable(Variable, p.Name, p.Name, t)
		return true
	case *syntax.LiteralPat:
		got := c.expr(p.Value, t)
		return c.fits(p, got, t, reason{what: "is the type of the matched value"}) && t.Resolve().Kind != types.Invalid
	case *syntax.TuplePat:
		return c.tuplePattern(p, t, names)
	case *syntax.VariantPat:
		return c.variantPattern(p, t, names)
	}
	return false
}

// declareNames declares the names of invalid patterns.
func (c *checker) declareNames(ps []syntax.Pattern, names map[string]*Object) bool {
	for _, p := range ps {
		c.patternIn(p, types.Of(types.Invalid), names)
	}
	return false
}

func (c *checker) tuplePattern(p *syntax.TuplePat, t *types.Type, names map[string]*Object) bool {
	t = t.Resolve()
	if len(p.Elems) == 0 {
		return c.fits(p, c.universe.unit, t, reason{what: "is the type of the matched value"})
	}
	if t.Kind == types.Var && len(p.Elems) <= types.MaxSize {
		elems := make([]*types.Type, len(p.Elems))
		for i := range elems {
			elems[i] = types.NewVar()
		}
		types.Unify(t, types.TupleOf(elems))
		t = t.Resolve()
	}
	switch {
	case fitsAll(t):
		return c.declareNames(p.Elems, names)
	case t.Kind != types.Tuple:
		c.fault(p, CodeType, "", "this pattern is for tuples, and what is matched is `%s`", t)
		return c.declareNames(p.Elems, names)
	case len(t.Elems) != len(p.Elems):
		c.fault(p, CodeTupleLength, "write _ for what is not needed", "this pattern is for %s, and `%s` has %d",
			countOf(len(p.Elems), "element"), t, len(t.Elems))
		return c.declareNames(p.Elems, names)
	}
	ok := true
	for i, e := range p.Elems {
		ok = c.patternIn(e, t.Elems[i], names) && ok
	}
	return ok
}

func (c *checker) variantPattern(p *syntax.VariantPat, t *types.Type, names map[string]*Object) bool {
	o := c.patternVariant(p, t)
	if o == nil {
		return c.declareNames(p.Args, names)
	}
	if o.Kind == Const {
		if len(p.Args) > 0 {
			c.fault(p, CodeType, "", "`%s` is a constant, and carries nothing", o.Name)
			return c.declareNames(p.Args, names)
		}
		return c.fits(p, c.value(o, nil, nil, nil), t, reason{what: "is the type of the matched value"})
	}
	decl := o.Parent.Type.Decl
	enum := t.Resolve()
	if enum.Kind != types.Enum || enum.Decl != decl {
		enum = types.Declared(types.Enum, decl, c.instance(nil, decl.Name, decl.Params, nil))
		if !c.fits(p, enum, t, reason{what: "is the type of the matched value"}) || t.Resolve().Kind == types.Invalid {
			return c.declareNames(p.Args, names)
		}
	}
	payload := enum.Payload(o.Index)
	if len(p.Args) != len(payload) {
		help := "write " + o.Name + "(_) if it does not matter"
		if len(payload) == 0 {
			help = "write only " + o.Name
		}
		c.fault(p, CodeArguments, help, "variant `%s` carries %s, and this pattern is for %s", o.Name,
			countOf(len(payload), "value"), itoa(len(p.Args)))
		return c.declareNames(p.Args, names)
	}
	ok := true
	for i, a := range p.Args {
		ok = c.patternIn(a, payload[i], names) && ok
	}
	return ok
}

// patternVariant returns the variant or the constant that a pattern names.
func (c *checker) patternVariant(p *syntax.VariantPat, t *types.Type) *Object {
	last := p.Name.Last()
	if last.Name == "" {
		return nil
	}
	m := c.current.scope.module
	if len(p.Name.Segments) > 1 {
		o := c.pathObject(p.Name, m)
		if o != nil && o.Kind != VariantName && o.Kind != Const {
			c.fault(p.Name, CodeName, "", "`%s` is %s, not a variant", truncate(p.Name.String()), o.Kind.article())
			return nil
		}
		return o
	}
	want := t.Resolve()
	if e := c.enums[want.Decl]; e != nil && e.members[last.Name] != nil {
		c.info.Uses[last] = e.members[last.Name]
		return e.members[last.Name]
	}
	if o := c.global(last.Name, m); o != nil && (o.Kind == Const || o.Kind == VariantName) {
		c.info.Uses[last] = o
		return o
	}
	switch want.Kind {
	case types.Invalid, types.Never:
		return nil
	case types.Enum:
		c.fault(last, CodeName, c.didYouMeanOr(last.Name, variantNames(want.Decl), "its variants are "),
			"enum `%s` has no variant `%s`", want.Decl.Name, truncate(last.Name))
		return nil
	}
	if o := c.variant(last, nil); o != nil {
		return o
	}
	help := "names in patterns begin with a small letter, variants with a capital one"
	c.fault(last, CodeName, help, "there is no variant `%s`", truncate(last.Name))
	return nil
}

// match checks match x { pattern => value }.
func (c *checker) match(x *syntax.MatchExpr, want *types.Type, used bool) *types.Type {
	t := c.expr(x.X, nil)
	j := joiner{c: c, want: want, used: used, what: "is the type of the previous arm"}
	sound := true
	for _, a := range x.Arms {
		mark := c.mark()
		sound = c.pattern(a.Pattern, t) && sound
		if a.Guard != nil {
			c.expect(a.Guard, types.Of(types.Bool), reason{what: "is the type of a condition", help: conditionHelp})
		}
		if used {
			j.add(a.Body, c.expr(a.Body, j.hint()))
		} else if !c.discard(a.Body) {
			j.any = true
		}
		c.release(mark)
	}
	if sound && t.Resolve().Kind != types.Invalid && t.Kind != types.Never && !c.malformed[x.File] {
		c.covers(x, t)
	}
	if t.Kind == types.Never {
		return t
	}
	if len(x.Arms) == 0 {
		return types.Of(types.Invalid)
	}
	return j.result()
}
