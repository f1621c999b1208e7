package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// ofKind returns the resolved type if it is of this kind, nil otherwise.
func ofKind(t *types.Type, k types.Kind) *types.Type {
	if t == nil || t.Resolve().Kind != k {
		return nil
	}
	return t.Resolve()
}

func (c *checker) list(x *syntax.ListLit, want *types.Type) *types.Type {
	elem := types.NewVar()
	if want = ofKind(want, types.List); want != nil {
		elem = want.Elems[0]
	}
	for i, e := range x.Elems {
		w := reason{what: "is the element type of the list"}
		if i > 0 {
			w.what = "is the type of the elements before it"
		}
		c.expect(e, elem, w)
	}
	return types.ListOf(elem)
}

func (c *checker) mapLit(x *syntax.MapLit, want *types.Type) *types.Type {
	k, v := types.NewVar(), types.NewVar()
	if want = ofKind(want, types.Map); want != nil {
		k, v = want.Elems[0], want.Elems[1]
	}
	for i, e := range x.Entries {
		ofKey, ofValue := "is the key type of the map", "is the value type of the map"
		if i > 0 {
			ofKey, ofValue = "is the type of the keys before it", "is the type of the values before it"
		}
		c.expect(e.Key, k, reason{what: ofKey})
		c.expect(e.Value, v, reason{what: ofValue})
	}
	if len(x.Entries) > 0 {
		c.require(key, k, x.Entries[0].Key, 0)
	}
	return types.MapOf(k, v)
}

func (c *checker) tuple(x *syntax.TupleLit, want *types.Type) *types.Type {
	hints := make([]*types.Type, len(x.Elems))
	if want = ofKind(want, types.Tuple); want != nil && len(want.Elems) == len(x.Elems) {
		hints = want.Elems
	}
	elems := make([]*types.Type, len(x.Elems))
	for i, e := range x.Elems {
		elems[i] = c.expr(e, hints[i])
		if elems[i].Kind == types.Never {
			elems[i] = types.NewVar()
		}
	}
	return types.TupleOf(elems)
}

// recordLit checks Name { field: value }.
func (c *checker) recordLit(x *syntax.RecordLit, want *types.Type) *types.Type {
	o := c.pathObject(x.Name, c.current.scope.module)
	var t *types.Type
	switch {
	case o == nil:
		if len(x.Name.Segments) == 1 {
			name := x.Name.Last()
			help := c.importHelp(c.current.scope.module, name.Name)
			if help == "" {
				help = c.didYouMeanOr(name.Name, c.names(c.current.scope.module, RecordName), "the records are ")
			}
			if name.Name != "" {
				c.fault(x.Name, CodeTypeName, help, "there is no record `%s`", truncate(name.Name))
			}
		}
	case o.Kind == AgentName:
		c.fault(x.Name, CodeName, "write summon before it", "`%s` is an agent, which is started with summon", o.Name)
	case o.Kind != RecordName:
		c.fault(x.Name, CodeTypeName, "", "`%s` is %s, not a record", truncate(x.Name.String()), o.Kind.article())
	default:
		decl := o.Type.Decl
		t = types.Declared(types.Record, decl, c.instance(x.Name, decl.Name, decl.Params, c.pathArgs(x.Name, o)))
		if want != nil && len(decl.Params) > 0 && want.Resolve().Decl == decl {
			types.Unify(t, want)
		}
	}
	if t == nil {
		c.values(x.Inits)
		return types.Of(types.Invalid)
	}
	given := make(map[string]*syntax.FieldInit, len(x.Inits))
	for _, f := range x.Inits {
		name := f.Name.Name
		field := o.members[name]
		if field == nil {
			c.expr(f.Value, nil)
			if name != "" {
				c.fault(f.Name, CodeField, c.didYouMeanOr(name, fieldNames(o.Type.Decl), "its fields are "),
					"record `%s` has no field `%s`", o.Name, truncate(name))
				given[""] = f
			}
			continue
		}
		c.info.Uses[f.Name] = field
		if first := given[name]; first != nil {
			c.duplicate(f.Name, CodeTwice, first.Name.Span, "remove one of them", "field `%s` is given twice",
				truncate(name))
		}
		given[name] = f
		c.expect(f.Value, t.FieldType(field.Index), reason{what: "is the type of the field"})
	}
	var missing []string
	for _, f := range o.Type.Decl.Fields {
		if given[f.Name] == nil {
			missing = append(missing, "`"+truncate(f.Name)+"`")
		}
	}
	if len(missing) > 0 && given[""] == nil && !c.malformed[x.File] {
		c.fault(x.Name, CodeField, "give it in the braces", "record `%s` needs %s", o.Name, choices(missing))
	}
	return t
}

func fieldNames(d *types.Decl) []string {
	names := make([]string, len(d.Fields))
	for i, f := range d.Fields {
		names[i] = f.Name
	}
	return names
}

// closure checks |x| body.
func (c *checker) closure(x *syntax.ClosureExpr, want *types.Type) *types.Type {
	outer := c.current
	b := &body{kind: closureBody, outer: outer, scope: outer.scope, agent: outer.agent, event: outer.event,
		closure: x, env: outer.env}
	want = ofKind(want, types.Func)
	params := make([]*types.Type, len(x.Params))
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
			c.fits(x.Body, got, b.result, reason{what: "is the result type of the function"})
		}
		c.release(mark)
	})
	return types.FuncOf(params, b.result, b.fails)
}
