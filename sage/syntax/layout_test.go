package syntax_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax/printer"
)

// TestFormat compares the formatted testdata/format/x.sg with x.golden.
func TestFormat(t *testing.T) {
	files, _ := filepath.Glob("testdata/format/*.sg")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := format(t, string(text))
			checkRoundTrip(t, string(text))
			golden := strings.TrimSuffix(name, ".sg") + ".golden"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// TestFormatPage checks that the documentation's programs are in canonical form, except for aligned
// trailing comments.
func TestFormatPage(t *testing.T) {
	files, _ := filepath.Glob("testdata/page/*.sg")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(strings.ReplaceAll(string(text), "        // Pos", " // Pos"), "   // Pos", " // Pos")
		if got := format(t, string(text)); got != want {
			t.Errorf("%s was formatted to\n%s", name, got)
		}
	}
}

func TestFormatRefusesErrors(t *testing.T) {
	got, diagnostics := printer.Format(source.NewFile("x.sg", "fn f() { let x = ; }"))
	if got != "" || len(diagnostics) != 1 {
		t.Errorf("got %q and %v", got, diagnostics)
	}
}
