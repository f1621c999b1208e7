package check_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/check/checktest"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/syntaxtest"
	"github.com/coppice-dev/coppice/sage/types"
)

// chain concatenates f of each number from 0 up to n.
func chain(n int, f func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

// TestHostile checks that adversarial programs do not take long. The limit is far above the usual
// time and far below anything quadratic.
func TestHostile(t *testing.T) {
	const n = 10_000
	for name, text := range map[string]string{
		"functions": chain(n, func(i int) string { return fmt.Sprintf("fn f%d(n: Int) -> Int { return f%d(n); }\n", i, (i+1)%n) }),
		"constants": "const C0: Int = 1;\n" + chain(n, func(i int) string { return fmt.Sprintf("const C%d = C%d;\n", n-i, n-i-1) }),
		"children": "agent A { n: Int }\nsupervisor S { strategy: OneForOne children {\n" +
			chain(n, func(i int) string { return fmt.Sprintf("A { restart: Transient n: %d }\n", i) }) + "} }\nrun S;",
		"supervisors": "agent A { }\n" + chain(n, func(i int) string {
			return fmt.Sprintf("supervisor S%d { strategy: OneForOne children { S%d { restart: Permanent } } }\n", i, i+1)
		}) + fmt.Sprintf("supervisor S%d { strategy: OneForOne children { A { restart: Transient } } }", n),
		"agents that await": chain(n, func(i int) string {
			return fmt.Sprintf("agent A%d { on start { let x = try await summon A%d {}; yield(x); } on error(e) { } }\n", i, i+1)
		}) + fmt.Sprintf("agent A%d { on start { yield(1); } }", n),
		"inference":  "fn id<T>(x: T) -> T { x } fn f() {\nlet x0 = [];\n" + chain(n, func(i int) string { return fmt.Sprintf("let x%d = id(x%d);\n", i+1, i) }) + fmt.Sprintf("x0 = [1]; print(x%d[0] + 1); }", n),
		"closures":   "fn f() {\n" + chain(n, func(i int) string { return fmt.Sprintf("let g%d = |x| x + %d;\n", i, i) }) + "}",
		"variants":   "enum E {" + chain(n, func(i int) string { return fmt.Sprintf("V%d, ", i) }) + "}\nfn f(e: E) -> Int { match e {\n" + chain(n, func(i int) string { return fmt.Sprintf("V%d => %d,\n", i, i) }) + "} }",
		"literals":   "fn f(n: Int) -> Int { match n {\n" + chain(n, func(i int) string { return fmt.Sprintf("%d => %d,\n", i, i) }) + "_ => 0 } }",
		"unknown":    "fn f() {\n" + chain(n, func(i int) string { return fmt.Sprintf("missing%d();\n", i) }) + "}",
		"shadows":    "fn f() { let x = 1;\n" + chain(n, func(i int) string { return "let x = x + 1; { let x = x; print(x); }\n" }) + "}",
		"records":    chain(n, func(i int) string { return fmt.Sprintf("record R%d { a: R%d, b: R%d }\n", i, i+1, i+1) }) + fmt.Sprintf("record R%d { n: Int }\nagent A { @persistent r: R0 }", n),
		"sums":       "fn f(n: Int) -> Int { return 1" + strings.Repeat(" + n", 5000) + "; }",
		"blocks":     "fn f(b: Bool) { " + strings.Repeat("if b { ", 200) + strings.Repeat("}", 200) + " }",
		"lists":      "fn f() { let x = " + strings.Repeat("[", 400) + strings.Repeat("]", 400) + "; }",
		"fields":     "record R {" + chain(n, func(i int) string { return fmt.Sprintf("f%d: Int, ", i) }) + "}\nfn f() -> R { return R {" + chain(n, func(i int) string { return fmt.Sprintf("f%d: %d, ", i, i) }) + "}; }",
		"wide tuple": "fn f(x: (" + strings.Repeat("Int, ", n) + "Int)) { }",
		"tuples":     "fn f(x: Int) {\nlet t0 = (x, x);\n" + chain(200, func(i int) string { return fmt.Sprintf("let t%d = (t%d, t%d);\n", i+1, i, i) }) + "}",
		"growth": "fn f() { let g = |" + chain(200, func(i int) string { return fmt.Sprintf("a%d, b%d, ", i, i) }) + "a200, b200| {" + chain(200, func(i int) string {
			return fmt.Sprintf("let x%d = [a%d, (a%d, a%d)]; let y%d = [b%d, (b%d, b%d)];\n", i, i, i+1, i+1, i, i, i+1, i+1)
		}) + "print(a0 == b0); let z = [a0, b0]; a0 }; }",
		"matches": "fn f(t: (" + strings.Repeat("Bool, ", 29) + "Bool)) { match t {\n" + chain(29, func(i int) string {
			return "(" + strings.Repeat("_, ", i) + "true, true" + strings.Repeat(", _", 28-i) + ") => { }\n(" + strings.Repeat("_, ", i) + "false, false" + strings.Repeat(", _", 28-i) + ") => { }\n"
		}) + "} }",
		"if else": "fn f(n: Int) -> Int { return " + chain(400, func(i int) string { return fmt.Sprintf("if n == %d { %d } else ", i, i) }) + "{ 0 }; }",
		"globs":   "enum E { A } use E::*;" + strings.Repeat("use E::*;", 100) + "fn f() {\n" + chain(n, func(i int) string { return fmt.Sprintf("let e%d = A;\n", i) }) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, diagnostics := checked(text)
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			switch name {
			case "supervisors", "unknown", "wide tuple", "tuples", "growth", "matches":
				if !diag.HasErrors(diagnostics) {
					t.Error("is accepted")
				}
				if len(diagnostics) > 200 {
					t.Errorf("%d diagnostics", len(diagnostics))
				}
			case "records":
			default:
				if diag.HasErrors(diagnostics) {
					t.Error(render(diagnostics[:min(3, len(diagnostics))]))
				}
			}
			if testing.Verbose() {
				t.Log(time.Since(begin), len(diagnostics))
			}
		})
	}
}

func TestDepth(t *testing.T) {
	tree := func(levels int) string {
		return "agent A { on start { } }\n" + chain(levels-1, func(i int) string {
			return fmt.Sprintf("supervisor S%d { strategy: OneForOne children { S%d { restart: Permanent } } }\n", i+1, i+2)
		}) + fmt.Sprintf("supervisor S%d { strategy: OneForOne children { A { restart: Transient } } }\nrun S1;\n", levels)
	}
	accepted(t, tree(8))
	for _, levels := range []int{9, 10, 20} {
		_, diagnostics := checked(tree(levels))
		if len(diagnostics) != 1 || diagnostics[0].Code != check.CodeDepth || diagnostics[0].Span.Source() != "S9" {
			t.Errorf("%d levels:\n%s", levels, render(diagnostics))
		}
	}
}

// checkInvariants checks what must hold for any program: no panic, diagnostics within the text, a
// deterministic result, and a type for each expression of a valid program.
func checkInvariants(t failer, text string) {
	t.Helper()
	file := source.NewFile("main.sg", text)
	config := check.Config{Processes: []string{"worker"}, Load: func(m *check.Module, name string) (*source.File, error) {
		return source.NewFile(m.Path+"/"+name+".sg", "pub fn f() -> Int { return 1; } pub enum E { A, B } pub use super::*;"), nil
	}}
	info, diagnostics := check.Program(file, config)
	for _, d := range diagnostics {
		if d.Span.File == nil || d.Message == "" || strings.Contains(d.Message+d.Help, "%!") || d.Span.Start > d.Span.End || int(d.Span.End) > len(d.Span.File.Text) {
			t.Fatalf("%+v", d)
		}
	}
	_, again := check.Program(file, config)
	if a, b := render(diagnostics), render(again); a != b {
		t.Fatalf("checked again, it is\n%s\nand was\n%s", b, a)
	}
	for x, typ := range info.Types {
		if typ == nil || typ.Kind == types.Var {
			t.Fatalf("%s: type %v", x.Extent().Source(), typ)
		}
		if !diag.HasErrors(diagnostics) && typ.Kind == types.Invalid {
			switch x.(type) {
			case *syntax.Ident, *syntax.SelfExpr, *syntax.FieldExpr:
			default:
				t.Fatalf("%s has no type, and there is no error in\n%s", x.Extent().Source(), text)
			}
		}
	}
}

func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkInvariants(t, syntaxtest.Text().Draw(t, "program")) })
}

func FuzzProgram(f *testing.F) {
	f.Add(tour(f))
	for _, c := range faults {
		text, _ := unmark(c.text)
		f.Add(text)
	}
	for _, text := range missing {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 20_000 {
			checkInvariants(t, text)
		}
	})
}

// TestRightPrograms checks that valid programs are accepted.
func TestRightPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := checktest.Program().Draw(t, "program")
		info, diagnostics := checked(text)
		for _, d := range diagnostics {
			if d.Severity == diag.Error {
				t.Fatalf("%s\n%s", render(diagnostics), text)
			}
		}
		everyName(t, info)
		checkInvariants(t, text)
	})
}

// TestNearlyRightPrograms checks mutated programs, which must not cause a panic.
func TestNearlyRightPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := regexp.MustCompile(`\w+|\s+|.`).FindAllString(checktest.Program().Draw(t, "program"), -1)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			at, from := rapid.IntRange(0, len(words)-1).Draw(t, "at"), rapid.IntRange(0, len(words)-1).Draw(t, "from")
			words[at] = words[from]
		}
		checkInvariants(t, strings.Join(words, ""))
	})
}

// TestLongNames checks that shortening a name does not cut a character in two.
func TestLongNames(t *testing.T) {
	twice := strings.Repeat(`test "x`+strings.Repeat("ä", 40)+`" { }`, 2)
	_, diagnostics := check.Program(source.NewFile("main.sg", twice), check.Config{})
	if got := render(diagnostics); len(diagnostics) != 1 || strings.Contains(got, `\x`) {
		t.Error(got)
	}
}
