package syntax_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
	"github.com/coppice-dev/coppice/sage/syntax/syntaxtest"
)

func comments(f *syntax.File) []string {
	var texts []string
	for _, c := range f.Comments {
		texts = append(texts, c.Text)
	}
	slices.Sort(texts)
	return texts
}

// fataler is implemented by testing.T and rapid.T.
type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// checkRoundTrip checks that formatting a valid program keeps its tree and comments, and that
// formatting it again changes nothing.
func checkRoundTrip(t fataler, text string) {
	t.Helper()
	before, diagnostics := parser.Parse(source.NewFile("x.sg", text))
	if len(diagnostics) > 0 {
		t.Fatalf("%v\nin\n%s", diagnostics[0], text)
	}
	once := format(t, text)
	after, diagnostics := parser.Parse(source.NewFile("x.sg", once))
	if len(diagnostics) > 0 {
		t.Fatalf("%v\nin what was made of\n%s\nwhich is\n%s", diagnostics[0], text, once)
	}
	if !syntax.Same(before, after) {
		t.Fatalf("another program was made of\n%s\nwhich is\n%s", text, once)
	}
	if a, b := comments(before), comments(after); !slices.Equal(a, b) {
		t.Fatalf("comments were lost of\n%s\nwhich is\n%s\n%q\n%q", text, once, a, b)
	}
	if twice := format(t, once); twice != once {
		t.Fatalf("formatting twice changed\n%s\nto\n%s\nfrom\n%s", once, twice, text)
	}
}

func format(t fataler, text string) string {
	t.Helper()
	formatted, diagnostics := printer.Format(source.NewFile("x.sg", text))
	if len(diagnostics) > 0 {
		f, _ := parser.Parse(source.NewFile("x.sg", text))
		once := printer.Print(f)
		f, _ = parser.Parse(source.NewFile("x.sg", once))
		t.Fatalf("%v: of\n%s\nwas made\n%s\nand of that\n%s", diagnostics[0], text, once, printer.Print(f))
	}
	return formatted
}

func TestPrintRandomTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := syntaxtest.File().Draw(t, "file")
		text := printer.Print(tree)
		checkRoundTrip(t, text)
		read, _ := parser.Parse(source.NewFile("x.sg", text))
		if !syntax.Same(normalize(tree), normalize(read)) {
			t.Fatalf("another program was printed:\n%s", text)
		}
	})
}

// normalize removes the literal texts and values that a tree which was not parsed need not have.
func normalize(f *syntax.File) *syntax.File {
	syntax.Inspect(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.StringLit:
			n.Text, n.Value = "", ""
		case *syntax.FloatLit:
			n.Value = 0
		case *syntax.TemplateLit:
			for i := range n.Parts {
				n.Parts[i] = syntax.TemplatePart{}
			}
		}
		return true
	})
	return f
}

func TestPrintScattered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkRoundTrip(t, syntaxtest.Text().Draw(t, "text"))
	})
}
