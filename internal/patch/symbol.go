package patch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// region is a part of a file, as indices of lines.
type region struct {
	from, to int  // lines, without the last
	doc      int  // the first line of the comment above; from if there is none
	symbol   bool // a declaration, not a line
}

// holds reports whether a hunk belongs to a region: it is within a declaration, or not before a line.
func (r *region) holds(f *fit, lines int) bool {
	if r.symbol {
		return f.at < r.to && f.at+lines > r.doc
	}
	return f.at+lines > r.from
}

// region returns the part of the file that anchors name, each within the one before.
func (p *placer) region(anchors []string) (region, bool) {
	where := region{to: len(p.lines)}
	for _, a := range anchors {
		next, err := p.anchor(a, where)
		if err != nil {
			return region{}, false
		}
		where = next
	}
	return where, len(anchors) > 0
}

// anchor returns the declaration or the line that an anchor names.
func (p *placer) anchor(text string, within region) (region, error) {
	if p.isGo {
		if found := p.declarations(text); len(found) == 1 && found[0].from >= within.from && found[0].to <= within.to {
			return found[0], nil
		}
	}
	wanted := blanks.form(text)
	for _, matches := range []func(string) bool{
		func(l string) bool { return l == wanted },
		func(l string) bool { return strings.Contains(l, wanted) },
	} {
		var found []int
		for i := within.from; i < within.to; i++ {
			if matches(blanks.form(p.lines[i])) {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 1:
			at := found[0]
			return region{from: at, to: p.blockEnd(at, within.to), doc: at}, nil
		case len(found) > 1:
			return region{}, fmt.Errorf("does not apply: %q is in lines %d and %d", text, found[0]+1, found[1]+1)
		}
	}
	return region{}, fmt.Errorf("does not apply: %q is not in the file", text)
}

// blockEnd returns the index after the lines that are indented more than the one at an index.
func (p *placer) blockEnd(at, most int) int {
	indent := len(indentOf(p.lines[at]))
	for at++; at < most; at++ {
		if text := strings.TrimSpace(p.lines[at]); text != "" && len(indentOf(p.lines[at])) <= indent {
			return at
		}
	}
	return at
}

// declarations returns the declarations of a Go file with a name: "func F", "func (T) M", "T.M",
// "type T", "const C", "var V", or a name alone. A signature after the name is ignored.
func (p *placer) declarations(name string) (found []region) {
	files := token.NewFileSet()
	text := strings.Join(p.lines, "\n")
	file, err := parser.ParseFile(files, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	kind, name := symbolName(name)
	add := func(what string, node ast.Node, doc *ast.CommentGroup, names ...string) {
		for _, n := range names {
			if n == name && (kind == "" || kind == what) {
				r := region{files.Position(node.Pos()).Line - 1, files.Position(node.End()).Line, 0, true}
				if r.doc = r.from; doc != nil {
					r.doc = files.Position(doc.Pos()).Line - 1
				}
				found = append(found, r)
				return
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil && len(d.Recv.List) == 1 {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			add("func", d, d.Doc, name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				var node ast.Node = s
				doc := d.Doc
				if d.Lparen.IsValid() {
					doc = nil
				} else {
					node = d
				}
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Doc != nil {
						doc = s.Doc
					}
					add("type", node, doc, s.Name.Name)
				case *ast.ValueSpec:
					var names []string
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
					if s.Doc != nil {
						doc = s.Doc
					}
					add(d.Tok.String(), node, doc, names...)
				}
			}
		}
	}
	return found
}

// symbolName splits the name of a declaration: "func (t *T) M(x int) error" is the func T.M.
func symbolName(text string) (kind, name string) {
	text = strings.TrimSpace(text)
	if first, rest, ok := strings.Cut(text, " "); ok && token.IsKeyword(first) {
		kind, text = first, strings.TrimSpace(rest)
	}
	if recv, rest, ok := strings.Cut(strings.TrimPrefix(text, "("), ")"); ok && strings.HasPrefix(text, "(") {
		words := strings.Fields(recv)
		if len(words) == 0 {
			return kind, ""
		}
		recv = strings.TrimLeft(words[len(words)-1], "*")
		recv, _, _ = strings.Cut(recv, "[")
		text = recv + "." + strings.TrimSpace(rest)
	}
	if i := strings.IndexAny(text, "([ {"); i >= 0 {
		text = text[:i]
	}
	return kind, text
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var errInvalidGo = errors.New("does not apply: the file would no longer be valid Go")

// insert places a hunk relative to its anchor.
func (p *placer) insert(t *target) error {
	var added []string
	for _, l := range t.lines {
		added = append(added, l.text)
	}
	if t.placement == atTheEnd {
		n := len(p.lines)
		if len(added) <= n && slices.Equal(p.lines[n-len(added):], added) {
			t.report.Done = true
			return nil
		}
		t.spans = []span{{at: n, lines: added}}
		t.report.At = n + 1
		return nil
	}
	where := region{to: len(p.lines)}
	for i, a := range t.anchors {
		next, err := p.anchor(a, where)
		if err != nil {
			return err
		}
		where = next
		if i == len(t.anchors)-1 && !where.symbol {
			where.to = where.from + 1 // the line itself
		}
	}
	s := span{at: where.to, lines: added}
	isAt := func(at int) bool {
		return at >= 0 && at+len(added) <= len(p.lines) && slices.Equal(p.lines[at:at+len(added)], added)
	}
	switch t.placement {
	case insteadOf:
		s.at = where.from
		if where.symbol && strings.HasPrefix(strings.TrimSpace(added[0]), "/") {
			s.at = where.doc
		}
		s.count = where.to - s.at
		t.report.Done = isAt(s.at) && s.count == len(added)
	case before:
		s.at = where.doc
		t.report.Done = isAt(s.at-len(added)) || isAt(s.at-len(added)-1)
		if where.symbol && strings.TrimSpace(added[len(added)-1]) != "" {
			s.lines = append(s.lines, "")
		}
	case after:
		t.report.Done = isAt(s.at) || isAt(s.at+1)
		if where.symbol && strings.TrimSpace(added[0]) != "" {
			s.lines = append([]string{""}, s.lines...)
		}
	}
	if t.report.Done {
		return nil
	}
	if where.symbol && !isGoText(p.text.replace([]span{s}).text()) {
		return errInvalidGo
	}
	t.spans, t.report.At = []span{s}, s.at+1
	return nil
}

func isGoText(text string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	return err == nil
}
