package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// fallible records that an operation can fail, and reports it if the failure is not handled.
func (c *checker) fallible(at syntax.Node, what string) {
	b := c.current
	if b.cover != nil {
		b.cover.used, b.cover.direct = true, true
		return
	}
	if b.kind == testBody {
		return // an error fails the test
	}
	c.fault(at, CodeUnhandled, "write try before it to pass the error on, or catch { … } after it to "+
		"go on with another value", "%s can fail, and nothing says what happens then", what)
}

// propagate records that an error leaves the current body, and reports it if that is not allowed.
func (c *checker) propagate(at syntax.Node, word string) {
	b := c.current
	for v := b.cover; v != nil; v = v.outer {
		v.used = true
		if v.stops {
			return
		}
	}
	switch b.kind {
	case closureBody:
		b.fails = true
	case funcBody:
		if !b.fails {
			c.fault(at, CodeNoFails, "write fails after the type of its result: fn "+truncate(b.name)+
				"(…) -> … fails, or handle the error with catch { … }",
				"`%s` passes an error on, and `%s` does not say that it fails", word, truncate(b.name))
			b.fails = true // report it only once
		}
	case handlerBody:
		if b.agent.Decl.Handler(syntax.EventError) == nil && !b.agent.unhandled {
			b.agent.unhandled = true
			c.fault(at, CodeNoHandler, "add on error(e) { … } to it, or handle the error with catch { … }",
				"`%s` passes an error on, and agent `%s` has no `on error`", word, b.agent.Object.Name)
		}
	case valueBody:
		c.fault(at, CodeNoFails, "handle the error with catch { … }",
			"`%s` passes an error on, and nothing is here that could take it", word)
	}
}

// try checks try x: a failure of x propagates to the caller, and a Result is unwrapped.
func (c *checker) try(x *syntax.TryExpr, want *types.Type) *types.Type {
	v := c.pushCover(false)
	t := c.expr(x.X, want)
	c.popCover()
	if r := t.Resolve(); !v.direct && r.Decl == c.universe.result {
		c.info.Unwraps[x] = true
		c.propagate(x, "try")
		return r.Elems[0]
	}
	if v.used {
		c.propagate(x, "try")
	} else if k := t.Resolve().Kind; k != types.Invalid && !c.malformed[x.File] {
		c.warn(x, CodeCannotFail, "remove try", "nothing here can fail")
	}
	return t
}

// covered checks an expression whose failure does not propagate.
func (c *checker) covered(x syntax.Expr, want *types.Type) *types.Type {
	c.pushCover(true)
	defer c.popCover()
	return c.expr(x, want)
}

func (c *checker) pushCover(stops bool) *cover {
	c.current.cover = &cover{stops: stops, outer: c.current.cover}
	return c.current.cover
}

func (c *checker) popCover() { c.current.cover = c.current.cover.outer }

// catch checks x catch(e) { y }, where y handles a failure of x.
func (c *checker) catch(x *syntax.CatchExpr, want *types.Type, used bool) *types.Type {
	hint := want
	if x.Body == nil && want != nil {
		hint = nil
		if r := want.Resolve(); r.Decl == c.universe.result {
			hint = r.Elems[0]
		}
	}
	v := c.pushCover(true)
	t := c.expr(x.X, hint)
	c.popCover()
	r := t.Resolve()
	if x.Body == nil {
		if !v.used && r.Decl == c.universe.result {
			c.warn(x, CodeCannotFail, "remove catch", "this is a Result already, and cannot fail")
			return t
		}
		if r.Kind == types.Never {
			t = types.NewVar()
		}
		return types.Declared(types.Enum, c.universe.result, []*types.Type{t, c.universe.failure})
	}
	if !v.direct && r.Decl == c.universe.result {
		c.info.Unwraps[x] = true
		v.used = true
		t = r.Elems[0]
	}
	if !v.used && !fitsAll(r) && !c.malformed[x.File] {
		c.warn(x, CodeCannotFail, "remove catch", "nothing here can fail, so this is never caught")
	}
	mark := c.mark()
	if x.Err != nil {
		c.variable(Variable, x.Err, x.Err, c.universe.failure)
	}
	if !used || t.Resolve().Kind == types.Unit {
		got := c.block(x.Body, nil, used)
		if used && x.Body.Tail != nil && got.Resolve().Kind != types.Unit && !fitsAll(got) {
			c.fault(x.Body.Tail, CodeCatch, "end it with a semicolon",
				"catch stands for what has no value, and gives `%s`", got)
		}
		c.release(mark)
		if t.Kind == types.Never && got.Kind == types.Never {
			return t
		}
		return c.universe.unit
	}
	got := c.block(x.Body, t, true)
	c.release(mark)
	if t.Resolve().Kind == types.Never {
		return got
	}
	if !types.Unify(got, t) {
		var at syntax.Node = x.Body
		help := c.remedy(got.Resolve(), t.Resolve())
		if x.Body.Tail != nil {
			at = x.Body.Tail
		} else {
			help = "end the block with a value, without a semicolon after it"
		}
		c.fault(at, CodeCatch, help, "catch stands for `%s`, and gives `%s`", t, got)
	}
	return t
}

// failure checks the operand of fail.
func (c *checker) failure(x syntax.Expr) {
	t := c.expr(x, nil).Resolve()
	if t == c.universe.failure || types.Unify(t, types.Of(types.String)) {
		return
	}
	c.fault(x, CodeFail, c.remedy(t, types.Of(types.String)),
		"fail says in a String what is wrong, or passes an Error on, and this is `%s`", t)
}

// retry checks retry(n, delay: ms, on: kinds) { }.
func (c *checker) retry(x *syntax.RetryExpr, want *types.Type) *types.Type {
	integer := types.Of(types.Int)
	c.expect(x.Count, integer, reason{what: "is the type of the number of tries"})
	if x.Delay != nil {
		c.expect(x.Delay, integer, reason{what: "is the type of the delay in milliseconds"})
	}
	if x.On != nil {
		c.expect(x.On, types.ListOf(c.universe.kind),
			reason{what: "is the type of the list of errors to retry", help: "write on: [ErrorKind.Tool, …]"})
	}
	v := c.pushCover(true)
	t := c.block(x.Body, want, true)
	c.popCover()
	if v.used {
		if v.outer != nil {
			v.outer.direct = true
		}
		c.propagate(x, "retry")
	} else if !c.malformed[x.File] {
		c.warn(x, CodeCannotFail, "remove retry", "nothing here can fail, so it is never tried again")
	}
	return t
}
