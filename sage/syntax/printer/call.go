package printer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/sage/syntax"
)

// minChainCalls is the number of calls from which a chain that is too long is split into lines.
const minChainCalls = 3

// chain prints calls, fields and elements: x.a().b()[i].
func (p *printer) chain(x syntax.Expr) *doc {
	type link struct {
		d    *doc
		call bool // a method call
	}
	var links []link // in reverse
	root, calls := x, 0
	add := func(n syntax.Expr, d *doc, call bool) {
		if n != x {
			d = concat(d, concat(p.after(n)...))
		}
		links = append(links, link{d, call})
	}
	for root == x || !p.hasLeading(root) {
		switch n := root.(type) {
		case *syntax.CallExpr:
			args := p.args(n, "(", n.Args)
			if f, ok := n.Fun.(*syntax.FieldExpr); ok && !p.hasLeading(f) {
				add(n, concat(text("."), p.name(f.Name), concat(p.after(f)...), args), true)
				root, calls = f.X, calls+1
				continue
			}
			add(n, args, false)
			root = n.Fun
			continue
		case *syntax.FieldExpr:
			add(n, concat(text("."), p.name(n.Name)), false)
			root = n.X
			continue
		case *syntax.ElemExpr:
			dot := "."
			if _, number := n.X.(*syntax.IntLit); number {
				dot = " ." // 1 .0 is no Float
			}
			add(n, text(dot+strconv.Itoa(n.Index)), false)
			root = n.X
			continue
		case *syntax.IndexExpr:
			add(n, group(text("["), indent(soft, p.expr(n.Index)), soft, text("]")), false)
			root = n.X
			continue
		}
		break
	}
	slices.Reverse(links)
	head := []*doc{p.expr(root)}
	var rest []*doc
	for _, l := range links {
		switch {
		case calls >= minChainCalls && l.call:
			rest = append(rest, soft, l.d)
		case len(rest) > 0:
			rest = append(rest, l.d)
		default:
			head = append(head, l.d)
		}
	}
	if len(rest) == 0 {
		return concat(head...)
	}
	return group(concat(head...), indent(rest...))
}

// args prints the arguments of a call. The last one may span lines while the others stay on one, if
// its form is suitable.
func (p *printer) args(n syntax.Node, open string, args []syntax.Expr) *doc {
	if len(args) == 0 || p.hasInner(n) {
		return p.list(n, open, docsOf(args, p.expr), ")")
	}
	docs := docsOf(args, p.expr)
	last := args[len(args)-1]
	if slices.ContainsFunc(docs[:len(docs)-1], isForced) || p.notes[last] != nil || !spreads(last, len(args) == 1) {
		return p.list(n, open, docs, ")")
	}
	parts := []*doc{text(open)}
	for _, d := range docs[:len(docs)-1] {
		parts = append(parts, d, text(", "))
	}
	hug := concat(concat(parts...), docs[len(docs)-1], text(")"))
	if len(args) == 1 {
		return hug
	}
	all := p.list(nil, open, docs, ")")
	if wide := spread(docs[len(docs)-1]); wide != nil {
		all = choice(concat(concat(parts...), wide, text(")")), all)
	}
	return choice(hug, all)
}

// spread returns d with its last group broken, nil if it does not end with one.
func spread(d *doc) *doc {
	wide := *d
	switch {
	case d.kind == groupDoc:
	case d.kind == concatDoc && len(d.parts) > 0:
		last := spread(d.parts[len(d.parts)-1])
		if last == nil {
			return nil
		}
		wide.parts = slices.Clone(d.parts)
		wide.parts[len(d.parts)-1] = last
	default:
		return nil
	}
	wide.forced = true
	return &wide
}

func (p *printer) hasInner(n syntax.Node) bool {
	return len(p.comments(n).inner) > 0
}

// spreads reports whether an expression is mostly a bracketed list that can span lines within the
// parentheses of a call: as the only argument, or after others.
func spreads(x syntax.Expr, alone bool) bool {
	switch x := x.(type) {
	case *syntax.RecordLit:
		return len(x.Inits) > 0
	case *syntax.ListLit:
		return len(x.Elems) > 0
	case *syntax.MapLit:
		return len(x.Entries) > 0
	case *syntax.ClosureExpr:
		switch x.Body.(type) {
		case *syntax.BlockExpr, *syntax.MatchExpr:
			return true
		}
	case *syntax.MatchExpr, *syntax.BlockExpr:
		return true
	case *syntax.CatchExpr:
		return x.Body != nil
	case *syntax.TryExpr:
		return spreads(x.X, alone)
	case *syntax.CallExpr:
		return alone && len(x.Args) > 0 && !isChain(x)
	case *syntax.StringLit:
		return strings.Contains(x.Text, "\n")
	}
	return false
}

// isChain reports whether a call is part of a chain that is broken before its dots.
func isChain(x syntax.Expr) bool {
	for calls := 0; calls < minChainCalls; {
		switch n := x.(type) {
		case *syntax.CallExpr:
			calls++
			x = n.Fun
		case *syntax.FieldExpr:
			x = n.X
		case *syntax.ElemExpr:
			x = n.X
		case *syntax.IndexExpr:
			x = n.X
		default:
			return false
		}
	}
	return true
}
