package lsp

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mainText = `mod db;
use db::Row;
use db::first as earliest;

/// What is counted.
const LIMIT: Int = 3;

// Counts the rows.
// Twice.
fn count(rows: List<Row>) -> Int {
    return len(rows) + LIMIT;
}

enum Shape {
    Circle(Float),
    Dot,
}

agent Counter receives Int {
    @persistent total: Int
    step: Int

    on start {
        let rows = [Row { id: 1, name: "a" }];
        let n = count(rows);
        self.total.set(self.total.get() + self.step);
        print("{n} of {earliest(rows).name}");
        yield(n);
    }

    on error(e) {
        print(e.message);
        yield(-1);
    }
}

supervisor Root {
    strategy: OneForOne

    children {
        Counter {
            restart: Transient
            step: 1
        }
    }
}

run Root;
`

const dbText = `pub record Row {
    id: Int,
    name: String,
}

pub fn first(rows: List<Row>) -> Row {
    let row = rows[0];
    return row;
}

fn hidden() -> Int {
    return 1;
}
`

func example(t *testing.T) *session {
	s := start(t, grove, "src/main.sg\n"+mainText, "src/db.sg\n"+dbText)
	s.open("src/main.sg", mainText)
	s.waitFor("src/main.sg")
	return s
}

// place returns the position of the nth occurrence (from 1) of the text before the cursor.
func (s *session) place(text, before string, n int) position {
	s.Helper()
	offset := 0
	for range n {
		i := strings.Index(text[offset:], before)
		if i < 0 {
			s.Fatalf("%q is not in the text", before)
		}
		offset += i + len(before)
	}
	head := text[:offset]
	return position{strings.Count(head, "\n"), len(head) - strings.LastIndexByte(head, '\n') - 1}
}

func TestDiagnostics(t *testing.T) {
	s := start(t, grove, "src/main.sg\n"+mainText, "src/db.sg\n"+dbText)
	s.open("src/main.sg", mainText)
	s.waitFor("src/main.sg")

	// An error in a file that is not open.
	broken := strings.Replace(dbText, "return 1;", `return "1";`, 1)
	s.open("src/db.sg", broken)
	p := s.waitFor("src/db.sg", "11:11 E011")
	if p.Version == nil || *p.Version != 2 || !strings.Contains(p.Diagnostics[0].Message, "\nhelp: ") {
		t.Errorf("got %s", asJSON(p))
	}

	// The editor's text takes precedence, and other modules see it at once.
	s.change("src/db.sg", contentChange{Text: strings.Replace(dbText, "id: Int", "id: String", 1)})
	s.waitFor("src/main.sg", "23:30 E011")
	s.change("src/db.sg", contentChange{Text: dbText + "fn hidden() {}"})
	p = s.waitFor("src/db.sg", "13:3 E018")
	if len(p.Diagnostics[0].Related) != 1 || s.name(p.Diagnostics[0].Related[0].Location.URI) != "src/db.sg" {
		t.Errorf("got %s", asJSON(p))
	}

	// After closing, the text on disk applies.
	s.notify("textDocument/didClose", documentParams{documentID{s.uri("src/db.sg")}})
	s.waitFor("src/db.sg")
	if err := os.WriteFile(filepath.Join(s.dir, "src/db.sg"), []byte("pub fn x( {"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{}})
	s.waitFor("src/db.sg", "0:10 E001")

	// An error in a project file.
	if err := os.WriteFile(filepath.Join(s.dir, "grove.toml"), []byte("[projekt]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{}})
	s.waitFor("grove.toml", "0:1 ")
}

func (s *session) change(name string, changes ...contentChange) {
	s.Helper()
	s.version++
	s.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": s.uri(name), "version": s.version}, "contentChanges": changes})
}

// TestOtherPrograms checks programs that are not modules of the project's: test files always, other
// files while they are open.
func TestOtherPrograms(t *testing.T) {
	bad := "fn f() -> Int {\n    return true;\n}\n"
	s := start(t, grove, "src/main.sg\n"+mainText, "src/db.sg\n"+dbText, "src/a_test.sg\n"+bad, "scratch.sg\n"+bad, "other.sg\n"+bad)
	s.open("src/main.sg", mainText)
	s.waitFor("src/a_test.sg", "1:11 E011")
	s.open("scratch.sg", bad)
	s.waitFor("scratch.sg", "1:11 E011")
	s.notify("textDocument/didClose", documentParams{documentID{s.uri("scratch.sg")}})
	s.waitFor("scratch.sg")

	// A file without a project, and an untitled document.
	dir := t.TempDir()
	s.dir = dir
	s.open("alone.sg", bad)
	s.waitFor("alone.sg", "1:11 E011")
	s.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": "untitled:Untitled-1", "text": "mod a;\n" + bad}})
	for p := range s.published {
		if p.URI == "untitled:Untitled-1" {
			if len(p.Diagnostics) != 2 {
				t.Errorf("got %s", asJSON(p))
			}
			break
		}
	}
}

func TestHover(t *testing.T) {
	s := example(t)
	tests := []struct {
		name   string
		before string
		n      int
		want   string
	}{
		{"function", "let n = cou", 1, "fn count(rows: List<Row>) -> Int\n```\n\nCounts the rows.\nTwice."},
		{"variable", "yield(n", 1, "let n: Int\n"},
		{"parameter", "len(ro", 1, "rows: List<Row>\n"},
		{"library", "return le", 1, "fn len"},
		{"constant", "+ LIM", 1, "const LIMIT: Int = 3;\n```\n\nWhat is counted."},
		{"record", "use db::Ro", 1, "record Row {\n    id: Int,\n    name: String,\n}"},
		{"field", "Row { i", 1, "id: Int\n"},
		{"field behind a dot", "earliest(rows).na", 1, "name: String\n"},
		{"persistent belief", "self.tot", 1, "@persistent total: Int\n"},
		{"belief", "self.st", 1, "\nstep: Int\n"},
		{"method of a belief", "total.ge", 1, "get() -> T\n"},
		{"another name", "earl", 2, "fn first(rows: List<Row>) -> Row"},
		{"module", "mod d", 1, "mod db\n"},
		{"enum", "enum Sha", 1, "enum Shape {\n    Circle(Float),"},
		{"variant", "Circ", 1, "Shape::Circle(Float)\n"},
		{"agent", "agent Count", 1, "agent Counter receives Int\n    @persistent total: Int\n    step: Int\n"},
		{"child", "children {\n        Coun", 1, "agent Counter receives Int\n"},
		{"belief of a child", "Transient\n            st", 1, "step: Int\n"},
		{"supervisor", "run Ro", 1, "supervisor Root { Counter }\n"},
		{"error", "print(e.mess", 1, "message: String\n"},
		{"nothing", "on sta", 1, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got *hover
			s.call("textDocument/hover", s.at("src/main.sg", s.place(mainText, test.before, test.n)), &got)
			switch {
			case test.want == "" && got != nil:
				t.Errorf("got %s", asJSON(got))
			case test.want != "" && (got == nil || !strings.Contains(got.Contents.Value, test.want)):
				t.Errorf("got %s, want %q", asJSON(got), test.want)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	s := example(t)
	in := func(old, text string) string { return strings.Replace(mainText, old, text, 1) }
	tests := []struct {
		name    string
		text    string
		with    []string
		without []string
		exactly bool
	}{
		{name: "self", text: in("yield(n);", "self.‸"), with: []string{"step", "total"}, exactly: true},
		{name: "self, begun", text: in("yield(n);", "let x = self.to‸ + 1;"), with: []string{"step", "total"}, exactly: true},
		{name: "belief", text: in("yield(n);", "self.total.‸"), with: []string{"get", "set", "checkpoint"}, without: []string{"total", "yield"}},
		{name: "field", text: in("yield(n);", "print(earliest(rows).‸"), with: []string{"id", "name"}, without: []string{"rows", "trim"}},
		{name: "list", text: in("yield(n);", "rows.‸;"), with: []string{"len", "map", "first"}, without: []string{"id", "trim", "to_upper"}},
		{name: "string", text: in("yield(n);", `"a".‸`), with: []string{"trim", "to_upper"}, without: []string{"id", "push"}},
		{name: "error", text: in("print(e.message);", "print(e.‸);"), with: []string{"message", "kind"}},
		{name: "module", text: in("yield(n);", "db::‸"), with: []string{"Row", "first"}, exactly: true},
		{name: "variants", text: in("yield(n);", "let s = Shape::‸;"), with: []string{"Circle", "Dot"}, exactly: true},
		{name: "use", text: in("use db::Row;", "use db::‸;"), with: []string{"Row", "first"}, exactly: true},
		{name: "modules", text: in("use db::Row;", "use d‸"), with: []string{"db", "super"}, exactly: true},
		{name: "statement", text: in("yield(n);", "c‸"), with: []string{"n", "rows", "count", "Row", "earliest", "LIMIT", "print", "let", "self"}, without: []string{"hidden", "first_", "assert_eq", "e"}},
		{name: "expression", text: in("let n = count(rows);", "let n = count(‸"), with: []string{"rows"}, without: []string{"n"}},
		{name: "in a string", text: in("{n} of", "{‸} of"), with: []string{"n", "rows"}},
		{name: "text", text: in("{n} of", "{n} o‸f"), exactly: true},
		{name: "comment", text: in("// Twice.", "// Tw‸"), exactly: true},
		{name: "children", text: in("Counter {\n            restart: Transient\n            step: 1\n        }", "‸"), with: []string{"Counter", "Root", "db"}, exactly: true},
		{name: "children, begun", text: in("children {", "children {\n        Co‸"), with: []string{"Counter", "Root", "db"}, exactly: true},
		{name: "child", text: in("step: 1", "‸"), with: []string{"restart", "step", "total"}, exactly: true},
		{name: "child, begun", text: in("step: 1", "st‸"), with: []string{"restart", "step", "total"}, exactly: true},
		{name: "sibling", text: in("step: 1\n        }", "step: ‸\n        }\n        Counter as other { step: 2 }"), with: []string{"other", "LIMIT"}},
		{name: "restart", text: in("restart: Transient", "restart: ‸"), with: []string{"Permanent", "Temporary", "Transient"}, exactly: true},
		{name: "strategy", text: in("strategy: OneForOne", "strategy: One‸"), with: []string{"OneForAll", "OneForOne", "RestForOne"}, exactly: true},
		{name: "run", text: in("run Root;", "run ‸;"), with: []string{"Counter", "Root", "db"}, exactly: true},
		{name: "type", text: in("LIMIT: Int", "LIMIT: ‸"), with: []string{"Int", "List", "Row", "Shape"}, without: []string{"count", "let"}},
		{name: "fields of a record", text: in("Row { id: 1, name: \"a\" }", "Row { ‸: 1 }"), with: []string{"id", "name"}, exactly: true},
		{name: "tools", text: in("@persistent", "use ‸\n    @persistent"), with: []string{"Database", "Fs", "Http", "Shell"}, exactly: true},
		{name: "top", text: in("run Root;", "‸"), with: []string{"agent", "supervisor", "fn", "run"}, without: []string{"let", "count"}},
		{name: "new name", text: in("let n = ", "let ‸ = "), exactly: true},
		{name: "function of tests", text: in("run Root;", "test \"a\" {\n    ass‸\n}"), with: []string{"assert_eq", "mock"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := s.open("src/main.sg", test.text)
			var list completionList
			s.call("textDocument/completion", s.at("src/main.sg", p), &list)
			var got []string
			for _, item := range list.Items {
				got = append(got, item.Label)
			}
			if test.exactly {
				want := test.with
				slices.Sort(got)
				slices.Sort(want)
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
				return
			}
			for _, w := range test.with {
				if !slices.Contains(got, w) {
					t.Errorf("%s is not in %v", w, got)
				}
			}
			for _, w := range test.without {
				if slices.Contains(got, w) {
					t.Errorf("%s is in %v", w, got)
				}
			}
		})
	}
}

func TestFormatting(t *testing.T) {
	s := start(t, grove)
	for _, text := range []string{"", "fn f() -> Int{return 1;}", "// 🌲\r\nfn f() -> Int {\r\n    return 1;\r\n}\r\n\r\n\r\nfn g() {}", mainText, "\ufeff" + mainText, mainText + "\n\n\n", "\n\n" + mainText} {
		s.open("a.sg", text)
		var got []textEdit
		s.call("textDocument/formatting", documentParams{documentID{s.uri("a.sg")}}, &got)
		formatted := apply(text, got)
		s.open("a.sg", formatted)
		var again []textEdit
		s.call("textDocument/formatting", documentParams{documentID{s.uri("a.sg")}}, &again)
		if len(again) != 0 || text != "" && !strings.HasSuffix(formatted, "}\n") && !strings.HasSuffix(formatted, ";\n") {
			t.Errorf("%q becomes %q, then %s", text, formatted, asJSON(again))
		}
	}
	s.open("a.sg", "fn f( {")
	if err := s.try("textDocument/formatting", documentParams{documentID{s.uri("a.sg")}}, nil); err == nil || !strings.Contains(err.Error(), "syntax errors") {
		t.Errorf("got %v", err)
	}
	if err := s.try("textDocument/formatting", documentParams{documentID{s.uri("b.sg")}}, nil); err == nil || !strings.Contains(err.Error(), "not open") {
		t.Errorf("got %v", err)
	}
}

func TestIncremental(t *testing.T) {
	d := document{text: "a🌲b\r\nc\n\nlast"}
	at := func(l1, c1, l2, c2 int, text string) contentChange {
		return contentChange{Range: &textRange{position{l1, c1}, position{l2, c2}}, Text: text}
	}
	steps := []struct {
		change contentChange
		want   string
	}{
		{at(0, 3, 0, 4, "B"), "a🌲B\r\nc\n\nlast"},
		{at(0, 1, 0, 3, "é"), "aéB\r\nc\n\nlast"},
		{at(0, 99, 1, 0, "\n"), "aéB\nc\n\nlast"},
		{at(2, 0, 2, 0, "x"), "aéB\nc\nx\nlast"},
		{at(3, 4, 3, 4, "!"), "aéB\nc\nx\nlast!"},
		{at(99, 0, 99, 9, "end"), "aéB\nc\nx\nlast!end"},
		{at(1, 1, 0, 1, ""), "a\nx\nlast!end"},
		{at(-5, -5, 0, -1, "^"), "^a\nx\nlast!end"},
		{contentChange{Text: "new"}, "new"},
	}
	for _, step := range steps {
		d.apply([]contentChange{step.change})
		if d.text != step.want {
			t.Fatalf("%s: got %q, want %q", asJSON(step.change), d.text, step.want)
		}
	}
}

func TestEnd(t *testing.T) {
	s := start(t, grove)
	if err := s.try("initialize", struct{}{}, nil); err == nil {
		t.Error("initialize twice")
	}
	s.call("shutdown", nil, nil)
	if err := s.try("textDocument/hover", s.at("a.sg", position{}), nil); err == nil {
		t.Error("a request after shutdown")
	}
	s.notify("exit", nil)
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	s.ended <- nil

	s = start(t, grove)
	s.notify("exit", nil)
	if err := <-s.ended; !errors.Is(err, ErrNoShutdown) {
		t.Error(err)
	}
	s.ended <- nil
}

// TestChildNames checks that names of children resolve in siblings and are renamed everywhere.
func TestChildNames(t *testing.T) {
	s := example(t)
	const text = `agent Server receives Int { on message(n: Int) { print(n); } }
agent Client {
    server: Agent<Server>
    on start { send(self.server, 1) catch { }; }
}
supervisor Root {
    strategy: OneForOne
    children {
        Server as main { restart: Transient }
        Client { restart: Transient server: main }
    }
}
run Root;
`
	s.open("src/names.sg", text)
	at := s.at("src/names.sg", s.place(text, "server: ma", 1))
	var h hover
	if err := s.try("textDocument/hover", at, &h); err != nil || !strings.Contains(h.Contents.Value, "main: Agent<Server>") {
		t.Errorf("%v, %s", err, asJSON(h))
	}
	var edit workspaceEdit
	if err := s.try("textDocument/rename", renameParams{at, "primary"}, &edit); err != nil || strings.Count(asJSON(edit), `"primary"`) != 2 {
		t.Errorf("%v, %s", err, asJSON(edit))
	}
	if err := s.try("textDocument/rename", renameParams{at, "Client"}, &edit); err == nil {
		t.Error("two children of one name")
	}
}
