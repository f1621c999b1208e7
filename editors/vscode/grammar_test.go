// Package vscode tests the highlighting of Sage against examples, since nothing
// else in the project reads the grammar.
package vscode

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// TestGrammar runs test/grammar.test.mjs, in which the library that highlights
// in VS Code itself reads the grammar.
func TestGrammar(t *testing.T) {
	exectest.Packages(t, "../../.cache/vscode")
	for _, dir := range []string{"syntaxes", "test", "package.json", "language-configuration.json", "../../examples", "../../internal/scaffold/project"} {
		touch(t, dir)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=tap", "test/grammar.test.mjs")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`(?m)^# pass [1-9]`).Match(out) {
		t.Errorf("no test has passed\n%s", out)
	}
}

// touch reads what the tests depend on: go test takes a result from its cache
// unless a file that the test itself has read is another one.
func touch(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
