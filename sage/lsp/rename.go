package lsp

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

// renamable returns the object at a target, or why it cannot be renamed.
func (a *target) renamable() (*syntax.Ident, *check.Object, error) {
	name, o := a.object()
	switch {
	case a == nil:
		return nil, nil, failure("this file cannot be checked")
	case o == nil:
		return nil, nil, failure("there is no name here to rename")
	case o.Kind == check.ModuleName:
		return nil, nil, failure("a module is named after its file; rename the file, then its `mod` and `use` lines")
	case !o.Span.Valid():
		return nil, nil, failure("`%s` is part of the language and cannot be renamed", o.Name)
	case name.Name != o.Name:
		return nil, nil, failure("`%s` is an alias of `%s` in this file; change it after `as`", name.Name, o.Name)
	}
	return name, o, nil
}

func (s *server) prepareRename(p *positionParams) (*prepared, error) {
	name, _, err := s.find(s.view(), p.TextDocument.URI, p.Position).renamable()
	if err != nil {
		return nil, err
	}
	return &prepared{Range: rangeOf(name.Span), Placeholder: name.Name}, nil
}

func (s *server) rename(p *renameParams) (*workspaceEdit, error) {
	v := s.view()
	a := s.find(v, p.TextDocument.URI, p.Position)
	_, o, err := a.renamable()
	if err != nil {
		return nil, err
	}
	if !isName(p.NewName) {
		return nil, failure("`%s` is not a valid name; use letters, digits and _, no leading digit and no keyword",
			truncate(p.NewName))
	}
	changes := map[string][]source.Span{} // by path, in source order
	for _, occurrence := range occurrences(a.programs, o, true) {
		if occurrence.Source() == o.Name {
			changes[occurrence.File.Name] = append(changes[occurrence.File.Name], occurrence)
		}
	}
	if p.NewName != o.Name {
		if err := s.checkRename(a, changes, p.NewName); err != nil {
			return nil, err
		}
	}
	versioned := s.client.Capabilities.Workspace.WorkspaceEdit.DocumentChanges
	result := &workspaceEdit{}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		edits := make([]textEdit, len(changes[path]))
		for i, occurrence := range changes[path] {
			edits[i] = textEdit{Range: rangeOf(occurrence), NewText: p.NewName}
		}
		if !versioned {
			if result.Changes == nil {
				result.Changes = map[string][]textEdit{}
			}
			result.Changes[v.uri(path)] = edits
			continue
		}
		id := versionedID{URI: v.uri(path)}
		if d, ok := v.documents[path]; ok {
			id.Version = &d.version
		}
		result.DocumentChanges = append(result.DocumentChanges, documentEdit{TextDocument: id, Edits: edits})
	}
	return result, nil
}

// isName reports whether a text is a valid name.
func isName(text string) bool {
	tokens, comments, diagnostics := parser.Scan(source.NewFile("", text))
	return len(tokens) == 2 && len(comments) == 0 && len(diagnostics) == 0 && tokens[0].Kind.IsName() &&
		int(tokens[0].End-tokens[0].Start) == len(text) && text != "_"
}

// checkRename checks that a program means the same with another name. It applies the changes,
// checks the program again and compares name by name, which finds collisions in any module.
func (s *server) checkRename(a *target, changes map[string][]source.Span, name string) error {
	texts := map[string]string{}
	for path, occurrences := range changes {
		var b strings.Builder
		end := int32(0)
		for _, occurrence := range occurrences {
			b.WriteString(occurrence.File.Text[end:occurrence.Start] + name)
			end = occurrence.End
		}
		b.WriteString(occurrences[0].File.Text[end:])
		texts[path] = b.String()
	}
	changed := a.view.with(texts)
	for _, before := range a.programs {
		if before.info == nil {
			return failure("checking %s: %v", before.program.Entry, before.err)
		}
		for _, d := range before.diagnostics {
			if d.Severity == diag.Error && strings.HasPrefix(d.Code, "E00") {
				return failure("%s: the file has syntax errors and may use the name there; fix them first",
					d.Span.Position())
			}
		}
		after := s.analyse(before.program, changed)
		if after.info == nil {
			return failure("checking the renamed program: %v", after.err)
		}
		if d := firstNew(before.diagnostics, after.diagnostics); d != nil {
			return failure("`%s` cannot be used: %s: %s", name, d.Span.Position(), d.Message)
		}
		if occurrence := firstDifference(before, after); occurrence != nil {
			return failure("`%s` cannot be used: at %s, `%s` would refer to something else", name,
				occurrence.Position(), truncate(occurrence.Source()))
		}
	}
	return nil
}

// firstNew returns the first error with a code that occurs more often than before, nil if there is
// none.
func firstNew(before, after []diag.Diagnostic) *diag.Diagnostic {
	known := map[string]int{}
	for _, d := range before {
		known[d.Code]++
	}
	for i, d := range after {
		if known[d.Code]--; known[d.Code] < 0 && d.Severity == diag.Error {
			return &after[i]
		}
	}
	return nil
}

// firstDifference returns the first name that refers to another object in one of two programs that
// only differ in names.
func firstDifference(before, after *analysis) *source.Span {
	forward, backward := map[*check.Object]*check.Object{}, map[*check.Object]*check.Object{}
	if len(before.info.Modules) != len(after.info.Modules) {
		s := before.info.Modules[0].Tree.Span.Before()
		return &s
	}
	for i, m := range before.info.Modules {
		olds, news := names(m.Tree), names(after.info.Modules[i].Tree)
		for k, old := range olds {
			if k >= len(news) {
				return &old.Span
			}
			o, n := objectOf(before.info, old), objectOf(after.info, news[k])
			if o == nil && n == nil {
				continue
			}
			if o == nil || n == nil || forward[o] != nil && forward[o] != n || backward[n] != nil && backward[n] != o {
				return &old.Span
			}
			forward[o], backward[n] = n, o
		}
		if len(news) > len(olds) {
			return &news[len(olds)].Span
		}
	}
	return nil
}

func names(tree *syntax.File) []*syntax.Ident {
	var all []*syntax.Ident
	syntax.Inspect(tree, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			all = append(all, id)
		}
		return true
	})
	return all
}

func truncate(text string) string {
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
