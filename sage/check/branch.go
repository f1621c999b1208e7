package check

import (
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// ifExpr checks an if, whose value may be used.
func (c *checker) ifExpr(x *syntax.IfExpr, want *types.Type, used bool) *types.Type {
	j := joiner{c: c, want: want, used: used, what: "is the type of the previous branch"}
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
				return c.invalid(x, CodeType, "add else { … }", "without else this has no value if the condition is "+
					"false, and `%s` is expected", j.t)
			}
			j.add(x, types.Of(types.Unit))
			break
		}
		at = branch.Else
	}
	return j.result()
}

// joiner unifies the types of several branches.
type joiner struct {
	c     *checker
	want  *types.Type
	used  bool
	what  string
	t     *types.Type
	wrong bool // the type of a branch is unknown
	any   bool // some branch completes
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
		if !j.c.fits(at, t, j.t, reason{what: j.what}) {
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

// jump checks break, continue and return.
func (c *checker) jump(x syntax.Expr) {
	b := c.current
	word := "continue"
	switch x := x.(type) {
	case *syntax.ReturnExpr:
		c.returnExpr(x)
		return
	case *syntax.BreakExpr:
		word = "break"
		if len(b.loops) > 0 {
			b.loops[len(b.loops)-1] = true
		}
	}
	if len(b.loops) > 0 {
		return
	}
	help := "loops are for, while and loop"
	if b.kind == closureBody {
		help = "a function cannot leave the loop around it; return ends only the function"
	}
	c.fault(x, CodeOutside, help, "`%s` stands in no loop", word)
}

func (c *checker) returnExpr(x *syntax.ReturnExpr) {
	b := c.current
	switch {
	case b.kind == handlerBody && x.Value != nil:
		c.expr(x.Value, nil)
		c.fault(x, CodeOutside, "an agent passes a result to the agent that awaits it with yield(…)",
			"a handler returns no value")
	case b.kind == handlerBody:
	case b.kind == valueBody:
		c.fault(x, CodeOutside, "", "`return` stands in no function")
		if x.Value != nil {
			c.expr(x.Value, nil)
		}
	case x.Value != nil:
		c.expect(x.Value, b.result, reason{what: "is the result type of the function"})
	default:
		c.fits(x, types.Of(types.Unit), b.result,
			reason{what: "is the result type of the function", help: "write the value after return"})
	}
}
