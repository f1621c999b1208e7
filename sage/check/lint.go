package check

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// lint warns of code that is valid and most likely a mistake. It only considers programs without
// errors, whose types are all known.
func (c *checker) lint() {
	if c.errors > 0 || len(c.malformed) > 0 {
		return
	}
	for _, m := range c.info.Modules {
		syntax.Inspect(m.Tree, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Block:
				c.unreachable(n)
			case *syntax.ExprStmt:
				c.unused(n.X)
			}
			return true
		})
	}
	for _, a := range c.info.Agents {
		c.unusedBeliefs(a)
	}
}

// unreachable warns of code after a statement that never completes.
func (c *checker) unreachable(b *syntax.Block) {
	for i, s := range b.Stmts {
		x, ok := s.(*syntax.ExprStmt)
		if !ok || c.info.Types[x.X] == nil || c.info.Types[x.X].Kind != types.Never {
			continue
		}
		var next syntax.Node = b.Tail
		if i+1 < len(b.Stmts) {
			next = b.Stmts[i+1]
		}
		if next != nil {
			c.warn(next, CodeUnreachable, "remove it, or put it in front",
				"this is never reached: what stands before it ends the block")
		}
		return
	}
}

// unused warns of a statement that computes a value without an effect.
func (c *checker) unused(x syntax.Expr) {
	switch x := x.(type) {
	case *syntax.BinaryExpr:
		if x.Op != syntax.AndAnd && x.Op != syntax.OrOr {
			c.warn(x, CodeUnused, "use it, or remove it", "the value of this is not used")
		}
	case *syntax.CallExpr:
		o := c.info.Uses[calleeName(x.Fun)]
		if o == nil || o.Kind != LibraryFunc || o.Library.Changes || o.Type == nil {
			return
		}
		t := o.Type.Resolve()
		if t.Kind != types.Func || t.Fails || t.Result().Resolve().Kind == types.Unit ||
			strings.HasPrefix(o.Name, "unwrap") {
			return
		}
		if slices.ContainsFunc(t.Params(), func(p *types.Type) bool { return p.Resolve().Kind == types.Func }) {
			return // the functions it calls may have effects
		}
		help := "use it, or remove it"
		var first syntax.Expr
		if f, ok := x.Fun.(*syntax.FieldExpr); ok {
			first = f.X
		} else if len(x.Args) > 0 {
			first = x.Args[0]
		}
		if first != nil && len(t.Params()) > 0 && t.Params()[0].Kind == t.Result().Kind && isPlace(first) {
			help = "write " + first.Extent().Source() + " = " + x.Extent().Source() + ";"
		}
		c.warn(x, CodeUnused, help, "`%s` changes nothing and gives a new value, which is not used", o.Name)
	}
}

// isPlace reports whether an expression can be assigned to.
func isPlace(x syntax.Expr) bool {
	switch x := x.(type) {
	case *syntax.Ident:
		return true
	case *syntax.FieldExpr:
		_, self := x.X.(*syntax.SelfExpr)
		return self
	}
	return false
}

// unusedBeliefs warns of beliefs that no handler of their agent mentions. A name that starts with _
// suppresses the warning.
func (c *checker) unusedBeliefs(a *Agent) {
	handlers := a.Decl.Handlers()
	if len(handlers) == 0 {
		return
	}
	used := map[string]bool{}
	for _, h := range handlers {
		syntax.Inspect(h, func(n syntax.Node) bool {
			if f, ok := n.(*syntax.FieldExpr); ok {
				if _, self := f.X.(*syntax.SelfExpr); self {
					used[f.Name.Name] = true
				}
			}
			return true
		})
	}
	for _, b := range a.Beliefs {
		if !used[b.Name] && !strings.HasPrefix(b.Name, "_") {
			c.warn(b.Node.(*syntax.Field).Name, CodeUnusedBelief, "remove it, or call it _"+b.Name,
				"belief `%s` is never used", b.Name)
		}
	}
}
