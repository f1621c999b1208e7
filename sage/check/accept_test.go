package check_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

func tour(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/tour.sg")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTour checks that a program that uses the whole language has no diagnostics.
func TestTour(t *testing.T) {
	info, diagnostics := checked(tour(t))
	if len(diagnostics) > 0 {
		t.Fatal(render(diagnostics))
	}
	everyName(t, info)
	if e := info.Entry; e == nil || e.Supervisor == nil || e.Supervisor.Object.Name != "Root" || e.Supervisor.Strategy != check.OneForAll {
		t.Fatalf("entry: %+v", e)
	}
	children := info.Entry.Supervisor.Children
	if c := children[1]; c.Agent == nil || c.Restart != check.Temporary || len(c.Beliefs) != 2 {
		t.Errorf("second child: %+v", c)
	}
	if c := children[2]; c.Supervisor == nil || c.Supervisor.Children[1].Process != "db" {
		t.Errorf("third child: %+v", c)
	}
	if c := children[3]; c.Process != "worker" || c.Restart != check.Transient {
		t.Errorf("fourth child: %+v", c)
	}
	if a := info.Agents[0]; a.Output.String() != "Option<Int>" || a.Message.String() != "Command" || strings.Join(a.Tools, " ") != "Http Fs" || a.Belief("done").Index != 2 {
		t.Errorf("agent: %+v", a)
	}
	if a := info.Agents[1]; a.Output.String() != "Int" {
		t.Errorf("agent: %+v", a)
	}
	var names []string
	for _, o := range info.Consts {
		names = append(names, o.Name)
	}
	if got := strings.Join(names, " "); got != "MAX_STEP LIMIT NAMES ORIGIN" {
		t.Errorf("constants: %s", got)
	}
}

// TestTypes checks the inferred types of expressions, given by their source text.
func TestTypes(t *testing.T) {
	info := accepted(t, tour(t))
	want := map[string]string{
		"PI * r * r":                         "Float",
		"fact(n-1)":                          "Int",
		"|c| depth(c)":                       "Fn(Tree<T>) -> Int",
		"map(children, |c| depth(c))":        "List<Int>",
		"try parse_int(s)":                   "Int",
		"parse_int(s) catch { 4 }":           "Int",
		"catch age(s)":                       "Result<Int, Error>",
		`{"a": 1, "b": 2}`:                   "Map<String, Int>",
		"t.1.0":                              "Float",
		"{}":                                 "Map<Int, String>",
		"|x| x + 1":                          "Fn(Int) -> Int",
		`["a", "bc"].map(|w| w.len())`:       "List<Int>",
		"None == find_first([])":             "Bool",
		"Node(1, [Leaf, Tree::Node(2, [])])": "Tree<Int>",
		"boxed(3)":                           "Box<Int>",
		`divine("where is {t}?")`:            "Point",
		"try await w timeout(1000)":          "Option<Int>",
		"await summon Worker { id: 3 } catch { None }": "Option<Int>",
		"receive()":                            "Command",
		`try map(["a"], |p| try read_file(p))`: "List<String>",
		"|p| try read_file(p)":                 "Fn(String) -> String fails",
		"to_upper":                             "Fn(String) -> String",
		"summon Main {}":                       "Agent<Main>",
	}
	syntax.Inspect(info.Modules[0].Tree, func(n syntax.Node) bool {
		if x, ok := n.(syntax.Expr); ok {
			if w, ok := want[x.Extent().Source()]; ok {
				if got := info.Types[x].String(); got != w {
					t.Errorf("%s: %s, want %s", x.Extent().Source(), got, w)
				}
				delete(want, x.Extent().Source())
			}
		}
		return true
	})
	for text := range want {
		t.Errorf("%s is not in the program", text)
	}
}

// TestObjects checks name resolution, captures and unwrapped Results.
func TestObjects(t *testing.T) {
	info := accepted(t, `
fn f(p: Int) -> Int fails {
    let a = 1;
    let b = 2;
    let g = |x: Int| { a = a + x + p; let h = |y: Int| a + y + x; h(b) };
    let c = try parse_int("1");
    return g(c) + [1].len();
}
agent A { @persistent n: Int on start { self.n.set(self.n.get() + 1); let a = 1; } on error(e) { } }
`)
	var closures [][]string
	kinds := map[string]check.ObjectKind{}
	syntax.Inspect(info.Modules[0].Tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ClosureExpr:
			var names []string
			for _, o := range info.Captures[n] {
				names = append(names, o.Name)
				if !o.Captured || o.Assigned != (o.Name == "a") {
					t.Errorf("%+v", o)
				}
			}
			closures = append(closures, names)
		case *syntax.TryExpr:
			if !info.Unwraps[n] {
				t.Error("try does not take the Result apart")
			}
		case *syntax.Ident:
			if o := info.Uses[n]; o != nil {
				kinds[n.Name] = o.Kind
			}
		}
		return true
	})
	if len(closures) != 2 || strings.Join(closures[0], " ") != "a p x b" && strings.Join(closures[0], " ") != "a p b" || strings.Join(closures[1], " ") != "a x" {
		t.Errorf("captures: %v", closures)
	}
	for name, kind := range map[string]check.ObjectKind{
		"p": check.Parameter, "b": check.Variable, "n": check.Belief, "set": check.BeliefMethod, "get": check.BeliefMethod,
		"len": check.LibraryFunc, "parse_int": check.LibraryFunc,
	} {
		if kinds[name] != kind {
			t.Errorf("%s is %d, want %d", name, kinds[name], kind)
		}
	}
}

func TestModules(t *testing.T) {
	program := files{
		"main.sg": `
mod db;
mod web;
use db::rows::{Row, count as rows_in, Kind};
use web::*;
use db::Steward;
fn total(r: Row) -> Int { return rows_in([r]) + page() + db::LIMIT; }
fn first() -> Kind { return Kind::Text; }
fn second(k: db::rows::Kind) -> Bool { return k == Number; }
supervisor S { strategy: OneForOne children { Steward { restart: Permanent } web::Server { restart: Transient } } }
run S;
`,
		"db.sg": `
pub mod rows;
mod hidden;
pub const LIMIT: Int = hidden::base() + 0;
pub agent Steward { @persistent n: Int on start { yield(hidden::base()); } }
`,
		"db/rows.sg":   `pub enum Kind { Text, Number } pub record Row { cells: List<String> } pub fn count(rows: List<Row>) -> Int { return len(rows); }`,
		"db/hidden.sg": `pub fn base() -> Int { return super::super::web::page(); }`,
		"web.sg":       `use super::db::rows::Row; pub fn page() -> Int { return 1; } fn secret() { } pub agent Server { on start { } } fn r(x: Row) -> Row { return x; }`,
	}
	program["db.sg"] = strings.Replace(program["db.sg"], "hidden::base() + 0", "7", 1)
	info, diagnostics := program.check()
	if diag.HasErrors(diagnostics) {
		t.Fatal(render(diagnostics))
	}
	everyName(t, info)
	var paths []string
	for _, m := range info.Modules {
		paths = append(paths, m.Path)
	}
	if got := strings.Join(paths, " "); got != " db db::rows db::hidden web" {
		t.Errorf("modules: %q", got)
	}
	for _, c := range []struct{ code, file, old, new string }{
		{"E020", "main.sg", "page()", "web::secret()"},
		{"E020", "main.sg", "db::LIMIT", "db::hidden::base()"},
		{"E010", "main.sg", "db::LIMIT", "db::LIMITS"},
		{"E010", "main.sg", "db::LIMIT", "dbb::LIMIT"},
		{"E010", "main.sg", "use web::*", "use wob::*"},
		{"E010", "main.sg", "use db::Steward", "use db::Stewart"},
		{"E018", "main.sg", "use db::Steward", "use db::Steward; use web::Server as Steward"},
		{"E019", "main.sg", "mod web;", "mod web; mod gone;"},
		{"E018", "main.sg", "mod web;", "mod web; mod web;"},
		{"E061", "main.sg", "web::Server {", "Sever {"},
		{"E043", "web.sg", "fn secret() { }", "run Server;"},
		{"E011", "db.sg", "LIMIT: Int = 7", "LIMIT: Int = \"7\""},
		{"E031", "web.sg", "use super::db::rows::Row;", ""},
	} {
		changed := files{}
		for name, text := range program {
			changed[name] = text
		}
		changed[c.file] = strings.Replace(program[c.file], c.old, c.new, 1)
		_, diagnostics := changed.check()
		if len(diagnostics) == 0 || diagnostics[0].Code != c.code || diagnostics[0].Span.File.Name != c.file {
			t.Errorf("%s: %s -> %s: want %s in %s, got\n%s", c.file, c.old, c.new, c.code, c.file, render(diagnostics))
		}
	}
}

func TestModulesInCircles(t *testing.T) {
	for name, program := range map[string]files{
		"use":  {"main.sg": "mod a; mod b; use a::x;", "a.sg": "pub use super::b::x;", "b.sg": "pub use super::a::x;"},
		"glob": {"main.sg": "mod a; mod b; use a::*; fn f() { x(); }", "a.sg": "pub use super::b::*;", "b.sg": "pub use super::a::*;"},
		"self": {"main.sg": "use x; use x as y; use y as x2; fn f() { x(); x2(); }"},
	} {
		_, diagnostics := program.check()
		if !diag.HasErrors(diagnostics) {
			t.Errorf("%s is accepted", name)
		}
	}
	endless := check.Config{Load: func(m *check.Module, name string) (*source.File, error) {
		return source.NewFile(m.Path+"/"+name, "mod a; mod b;"), nil
	}}
	if _, diagnostics := check.Program(source.NewFile("main.sg", "mod a;"), endless); !diag.HasErrors(diagnostics) {
		t.Error("files without end are accepted")
	}
}
