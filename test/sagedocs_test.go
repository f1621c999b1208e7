package test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each program in docs/sage is formatted, valid without warnings, and prints what it says; its
// tests pass. One with "// Error: CODE" has that error.
func TestSageDocs(t *testing.T) {
	t.Parallel()
	wanted := regexp.MustCompile(`(?m)^// Error: (\w+)$`)
	seen := 0
	for name, page := range pages(t) {
		if !strings.HasPrefix(name, "docs/sage/") {
			continue
		}
		for i, b := range fenced.FindAllStringSubmatch(page, -1) {
			if b[1] != "sage" {
				continue
			}
			seen++
			t.Run(fmt.Sprintf("%s %d", filepath.Base(name), i), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				write(t, filepath.Join(dir, "main.sg"), b[2])
				launch(t, dir, "sage", "fmt", "--check", "--diff", "main.sg").wantExit(exitOK)
				r := launch(t, dir, "sage", "check", "main.sg")
				if code := wanted.FindStringSubmatch(b[2]); code != nil {
					r.wantExit(exitFailure)
					if !strings.Contains(r.err.String(), "error["+code[1]+"]") {
						t.Errorf("no %s: %s", code[1], r.err)
					}
					return
				}
				r.wantExit(exitOK)
				if text := r.err.String() + r.out.String(); strings.Contains(text, "warning[") {
					t.Error(text)
				}
				if strings.Contains(b[2], "\ntest \"") {
					launch(t, dir, "sage", "test", "main.sg").wantExit(exitOK)
				}
				_, says, _ := strings.Cut(b[2], "// Output:\n")
				if !strings.Contains(b[2], "\nrun ") {
					return
				}
				code := exitOK
				if strings.Contains(b[2], "\n// Exit: 1\n") {
					code = exitFailure
				}
				r = launch(t, dir, "run", "main.sg")
				r.wantExit(code)
				var want []string
				for line := range strings.Lines(says) {
					want = append(want, strings.TrimSpace(strings.TrimPrefix(line, "//")))
				}
				if got := r.out.lines(); !slices.Equal(got, want) {
					t.Errorf("it prints %q, want %q", got, want)
				}
			})
		}
	}
	if seen < 9 {
		t.Errorf("only %d programs were found", seen)
	}
}
