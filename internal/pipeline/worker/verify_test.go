package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
)

// A stage is blamed for a work tree that it has changed, and not for one that cannot be read.
func TestVerify(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "git")
	dir := t.TempDir()
	for _, args := range []string{"init -q", "-c user.name=x -c user.email=x@localhost commit -q --allow-empty -m x"} {
		cmd := exec.Command("git", strings.Fields(args)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	c, err := change.Read(t.Context(), dir, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		return verify(t.Context(), c, pipeline.Test, outcome.VerificationFailed, "changed")
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = check()
	if end, ok := errors.AsType[*attempt.End](err); !ok || end.Kind != outcome.Retryable ||
		!strings.Contains(end.Obstacle.Description, "changed: ") || !strings.Contains(end.Obstacle.Description, "new") {
		t.Errorf("%v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	err = check()
	if end, ok := errors.AsType[*attempt.End](err); ok || err == nil {
		t.Errorf("%v, %+v", err, end)
	}
}
