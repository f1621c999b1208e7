package syntax_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

// seeds adds the seed corpus of the fuzz tests.
func seeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.sg")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, s := range []string{
		`fn f() { let x = "a {g("b {c}")} d" ++ 'e\x41\u{1f33f}'; x.y[0].1(2) catch(e) { 3 } }`,
		"agent A receives T follows P as R uses H { // c\n @persistent n: Int = -1, on message(m: T) { match m { A(x) if x > 1 => { break; } B::C => {} } } }",
		"fn f() { retry(3, delay: 10, on: [E.A]) { try await summon W { x: {\"a\": 1} } timeout(5) }; |a, b: Int| a && !b; (); {} }",
		"fn f() -> (Int, Fn(A) -> List<List<B>>) fails { if a {} else if b { 1 } else { 2 }; loop { continue; } }\nrun X { a: 1 };",
		"\ufefffn f() {}\r\n\t\"\x00\xff\u202e", "\"{\"{\"{", "/* */ } ] ) {", "@serial test \"x\" { mock tool A.b -> fail(1); }",
	} {
		f.Add(s)
	}
}

func FuzzScan(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		file := source.NewFile("x.sg", text)
		tokens, comments, diagnostics := parser.Scan(file)
		end := int32(0)
		for i, token := range tokens {
			if token.Start < end || token.End < token.Start || int(token.End) > len(text) || (token.Kind == syntax.EOF) != (i == len(tokens)-1) {
				t.Fatalf("token %d of %d is %v, after %d", i, len(tokens), token, end)
			}
			end = token.End
		}
		at := int32(0)
		for _, c := range comments {
			if c.Start < at || c.End < c.Start || !strings.HasPrefix(c.Text, "//") || c.Source() != c.Text {
				t.Fatalf("comment %+v after %d", c, at)
			}
			at = c.End
		}
		if len(diagnostics) > 100 {
			t.Fatalf("%d errors", len(diagnostics))
		}
	})
}

func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		file := source.NewFile("x.sg", text)
		tree, diagnostics := parser.Parse(file)
		for _, d := range diagnostics {
			if d.Span.Start < 0 || d.Span.End < d.Span.Start || int(d.Span.End) > len(text) || d.Message == "" || d.Code == "" {
				t.Fatalf("%+v", d)
			}
		}
		checkNesting(t, tree)
	})
}

// checkNesting checks that the extent of every node contains its children.
func checkNesting(t *testing.T, tree *syntax.File) {
	var outer []source.Span
	visit := func(n syntax.Node) {
		span := n.Extent()
		if len(outer) > 0 {
			around := outer[len(outer)-1]
			if !span.Valid() || span.Start < around.Start || span.End > around.End || span.End < span.Start {
				t.Fatalf("%T at %d-%d stands in %d-%d", n, span.Start, span.End, around.Start, around.End)
			}
		}
	}
	var walk func(n syntax.Node)
	walk = func(n syntax.Node) {
		visit(n)
		outer = append(outer, n.Extent())
		first := true
		syntax.Inspect(n, func(child syntax.Node) bool {
			if first {
				first = false
				return true
			}
			walk(child)
			return false
		})
		outer = outer[:len(outer)-1]
	}
	walk(tree)
}

func FuzzFormat(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		file := source.NewFile("x.sg", text)
		formatted, diagnostics := printer.Format(file)
		if _, errors := parser.Parse(file); len(errors) > 0 {
			if formatted != "" || len(diagnostics) == 0 {
				t.Fatalf("a file with errors was formatted to %q", formatted)
			}
			return
		}
		checkRoundTrip(t, text)
	})
}

// TestHostile parses input that is too deep, too long or unterminated. It must end with an error,
// not with a stack overflow.
func TestHostile(t *testing.T) {
	n := 100_000
	rep := strings.Repeat
	tests := []struct{ name, text, want string }{
		{"parentheses", "const X = " + rep("(", n), syntax.CodeDepth},
		{"brackets", "const X = " + rep("[", n), syntax.CodeDepth},
		{"braces", "fn f() " + rep("{", n), syntax.CodeDepth},
		{"maps", "const X = " + rep("{a: ", n), syntax.CodeDepth},
		{"minus", "const X = " + rep("-", n) + "1;", syntax.CodeDepth},
		{"not", "const X = " + rep("!", n) + "x;", syntax.CodeDepth},
		{"try", "const X = " + rep("try ", n) + "x;", syntax.CodeDepth},
		{"fail", "const X = " + rep("fail ", n) + "x;", syntax.CodeDepth},
		{"return", "const X = " + rep("return ", n) + "x;", syntax.CodeDepth},
		{"catch", "const X = " + rep("catch ", n) + "x;", syntax.CodeDepth},
		{"closures", "const X = " + rep("||", n) + "x;", syntax.CodeDepth},
		{"if", "fn f() { " + rep("if a { ", n), syntax.CodeDepth},
		{"else if", "fn f() { " + rep("if a { } else ", n) + "{ } }", syntax.CodeDepth},
		{"match", "fn f() { " + rep("match ", n), syntax.CodeDepth},
		{"arms", "fn f() { " + rep("match a { b => ", n), syntax.CodeDepth},
		{"types", "const X: " + rep("List<", n), syntax.CodeDepth},
		{"functions", "const X: " + rep("Fn(", n), syntax.CodeDepth},
		{"tuples", "fn f() { let " + rep("(", n), syntax.CodeDepth},
		{"patterns", "fn f() { match a { " + rep("A(", n), syntax.CodeDepth},
		{"records", "const X = " + rep("P { a: ", n), syntax.CodeDepth},
		{"summons", "const X = " + rep("summon P { a: ", n), syntax.CodeDepth},
		{"strings", "const X = " + rep(`"{`, n), syntax.CodeString},
		{"closed strings", "const X = " + rep(`"{`, n) + "x" + rep(`}"`, n) + ";", syntax.CodeDepth},
		{"calls", "const X = " + rep("f(", n), syntax.CodeDepth},
		{"chain", "const X = x" + rep(".f()", n) + ";", syntax.CodeDepth},
		{"sum", "const X = x" + rep(" + x", n) + ";", syntax.CodeDepth},
		{"steps", "const X = x" + rep(" || x && x == x < x ++ x + x * x", n) + ";", syntax.CodeDepth},
		{"catches", "const X = x" + rep(" catch { 1 }", n) + ";", syntax.CodeDepth},
		{"agents", rep("agent A { ", n), syntax.CodeMisplaced},
		{"retries", "const X = " + rep("retry(1) {", n), syntax.CodeDepth},
		{"supervisors", rep("supervisor A { children { A { ", n), syntax.CodeUnexpected},
		{"quotes", rep("\"\n", n), ""},
		{"open quotes", rep("x\"x\n", n+1), syntax.CodeString},
		{"errors", rep("fn f( {\n", n), syntax.CodeUnexpected},
		{"characters", rep("$\n", n), syntax.CodeCharacter},
		{"bytes", rep("\xff", n), syntax.CodeCharacter},
		{"nothing", rep("\x00", n), syntax.CodeCharacter},
		{"closing", rep("}", n), syntax.CodeUnexpected},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tree, diagnostics := parser.Parse(source.NewFile("x.sg", test.text))
			if len(diagnostics) == 0 || len(diagnostics) > 100 {
				t.Fatalf("%d errors", len(diagnostics))
			}
			found := test.want == ""
			for _, d := range diagnostics {
				found = found || d.Code == test.want
			}
			if !found {
				t.Errorf("no %s, but %v", test.want, diagnostics[0])
			}
			_ = printer.Print(tree)
			_ = syntax.Same(tree, tree)
		})
	}
}

// TestLongLines parses lines of ten million characters.
func TestLongLines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const size = 10 << 20
	for name, text := range map[string]string{
		"name":    "const X = " + strings.Repeat("x", size) + ";",
		"number":  "const X = " + strings.Repeat("1", size) + ";",
		"string":  "const X = \"" + strings.Repeat("x ", size/2) + "\";",
		"comment": "// " + strings.Repeat("x ", size/2),
		"list":    "const X = [" + strings.Repeat("1,", size/2) + "];",
		"blanks":  strings.Repeat(" ", size),
		"opening": strings.Repeat("{", size),
		"errors":  strings.Repeat("let ", size/4),
	} {
		t.Run(name, func(t *testing.T) {
			tree, diagnostics := parser.Parse(source.NewFile("x.sg", text))
			if tree == nil {
				t.Fatal("no tree")
			}
			for _, d := range diagnostics {
				if len(d.Message) > 500 {
					t.Errorf("a message of %d bytes", len(d.Message))
				}
			}
		})
	}
}
