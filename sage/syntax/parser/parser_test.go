package parser_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax/parser"
)

func TestPagePrograms(t *testing.T) {
	files, _ := filepath.Glob("../testdata/page/*.sg")
	if len(files) != 8 {
		t.Fatalf("found %d programs of the page, want 8", len(files))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, diagnostics := parser.Parse(source.NewFile(name, string(text)))
		for _, d := range diagnostics {
			t.Error(d)
		}
	}
}
