package check_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden checks the rendered diagnostics of common mistakes.
func TestGolden(t *testing.T) {
	programs, err := filepath.Glob("testdata/golden/*.sg")
	if err != nil || len(programs) == 0 {
		t.Fatal(programs, err)
	}
	for _, program := range programs {
		t.Run(filepath.Base(program), func(t *testing.T) {
			text, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			_, diagnostics := checked(string(text))
			got, golden := render(diagnostics), strings.TrimSuffix(program, ".sg")+".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
		})
	}
}
