package lsp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDefinitionAndReferences(t *testing.T) {
	s := example(t)
	tests := []struct {
		name        string
		before      string
		n           int
		definition  string
		occurrences []string
	}{
		{"function", "let n = cou", 1, "src/main.sg:9:3", []string{"src/main.sg:24:16"}},
		{"of another module", "earl", 2, "src/db.sg:5:7", []string{"src/main.sg:2:8", "src/main.sg:2:17", "src/main.sg:26:23"}},
		{"record", "List<Ro", 1, "src/db.sg:0:11", []string{"src/db.sg:5:24", "src/db.sg:5:33", "src/main.sg:1:8", "src/main.sg:9:20", "src/main.sg:23:20"}},
		{"field", "earliest(rows).na", 1, "src/db.sg:2:4", []string{"src/main.sg:23:33", "src/main.sg:26:38"}},
		{"belief", "self.st", 1, "src/main.sg:20:4", []string{"src/main.sg:25:47", "src/main.sg:42:12"}},
		{"module", "mod d", 1, "src/db.sg:0:0", []string{"src/main.sg:1:4", "src/main.sg:2:4"}},
		{"variable", "yield(n", 1, "src/main.sg:24:12", []string{"src/main.sg:26:16", "src/main.sg:27:14"}},
		{"agent", "children {\n        Coun", 1, "src/main.sg:18:6", []string{"src/main.sg:40:8"}},
		{"library", "return le", 1, "", []string{"src/main.sg:10:11"}},
		{"nothing", "on sta", 1, "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			at := s.at("src/main.sg", s.place(mainText, test.before, test.n))
			var got []location
			s.call("textDocument/definition", at, &got)
			if test.definition == "" {
				if len(got) != 0 {
					t.Errorf("got %s", asJSON(got))
				}
			} else if len(got) != 1 || s.show(got)[0] != test.definition {
				t.Errorf("got %v, want %s", s.show(got), test.definition)
			}
			p := referenceParams{positionParams: at}
			s.call("textDocument/references", p, &got)
			if d := cmp.Diff(test.occurrences, s.show(got)); d != "" {
				t.Error(d)
			}
			if test.definition == "" || test.name == "module" {
				return
			}
			p.Context.IncludeDeclaration = true
			s.call("textDocument/references", p, &got)
			if all := s.show(got); len(all) != len(test.occurrences)+1 || !slices.Contains(all, test.definition) {
				t.Errorf("with the declaration: %v", all)
			}
		})
	}
}

func (s *session) show(locations []location) []string {
	var all []string
	for _, l := range locations {
		all = append(all, s.name(l.URI)+":"+pos(l.Range.Start))
	}
	return all
}

func pos(p position) string { return asJSON(p.Line) + ":" + asJSON(p.Character) }

func TestRename(t *testing.T) {
	s := example(t)
	s.open("src/db.sg", dbText)
	tests := []struct {
		name    string
		before  string
		n       int
		to      string
		old     string // replaced everywhere in both files; "" if refused
		refusal string
	}{
		{"variable", "let n", 1, "sum", "let n = |let sum = ;{n} of|{sum} of;yield(n)|yield(sum)", ""},
		{"record of another module", "use db::Ro", 1, "Line", "Row|Line", ""},
		{"function of another module", "earl", 2, "oldest", "", "is an alias of `first`"},
		{"persistent belief", "self.tot", 1, "sum", "total|sum", ""},
		{"belief that a child has", "self.st", 1, "width", "step|width", ""},
		{"agent", "agent Count", 1, "Teller", "Counter|Teller", ""},
		{"field", "earliest(rows).na", 1, "title", "name|title", ""},
		{"constant", "+ LIM", 1, "MOST", "LIMIT|MOST", ""},
		{"same", "+ LIM", 1, "LIMIT", "LIMIT|LIMIT", ""},
		{"word", "+ LIM", 1, "while", "", "is not a valid name"},
		{"no name", "+ LIM", 1, "a b", "", "is not a valid name"},
		{"empty", "+ LIM", 1, "", "", "is not a valid name"},
		{"digit", "+ LIM", 1, "1a", "", "is not a valid name"},
		{"comment", "+ LIM", 1, "a//", "", "is not a valid name"},
		{"taken", "agent Count", 1, "Shape", "", "cannot be used"},
		{"captured", "+ LIM", 1, "rows", "", "cannot be used"},
		{"shadowed", "let rows", 1, "n", "", "cannot be used"},
		{"taken there", "use db::Ro", 1, "Counter", "", "cannot be used"},
		{"library", "return le", 1, "length", "", "part of the language"},
		{"module", "mod d", 1, "store", "", "named after its file"},
		{"nothing", "on sta", 1, "begin", "", "no name here"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got workspaceEdit
			at := s.at("src/main.sg", s.place(mainText, test.before, test.n))
			err := s.try("textDocument/rename", renameParams{at, test.to}, &got)
			if test.old == "" {
				if err == nil || !strings.Contains(err.Error(), test.refusal) {
					t.Errorf("got %v, %s; want %q", err, asJSON(got), test.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"src/main.sg": mainText, "src/db.sg": dbText} {
				want := text
				for _, pair := range strings.Split(test.old, ";") {
					from, to, _ := strings.Cut(pair, "|")
					want = strings.ReplaceAll(want, from, to)
				}
				if d := cmp.Diff(want, apply(text, got.Changes[s.uri(name)])); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
			var p prepared
			s.call("textDocument/prepareRename", at, &p)
			if p.Placeholder == "" {
				t.Errorf("got %s", asJSON(p))
			}
		})
	}
	s.change("src/db.sg", contentChange{Text: dbText + "fn ("})
	var got workspaceEdit
	if err := s.try("textDocument/rename", renameParams{s.at("src/main.sg", s.place(mainText, "let n", 1)), "sum"}, &got); err == nil || !strings.Contains(err.Error(), "syntax errors") {
		t.Errorf("got %v", err)
	}
}

func TestSymbols(t *testing.T) {
	s := example(t)
	s.open("src/main.sg", mainText+"\ntest \"one\" {}\n")
	var got []documentSymbol
	s.call("textDocument/documentSymbol", documentParams{documentID{s.uri("src/main.sg")}}, &got)
	var show func(all []documentSymbol) string
	show = func(all []documentSymbol) string {
		var parts []string
		for _, d := range all {
			part := d.Detail + " " + d.Name
			if len(d.Children) > 0 {
				part += "(" + show(d.Children) + ")"
			}
			parts = append(parts, strings.TrimSpace(part))
		}
		return strings.Join(parts, ", ")
	}
	want := "mod db, const LIMIT, fn count, enum Shape(Circle, Dot), agent Counter(Int total, Int step, on start, on error), supervisor Root(Counter), test one"
	if d := cmp.Diff(want, show(got)); d != "" {
		t.Error(d)
	}
}
