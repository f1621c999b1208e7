package project

import (
	"os"
	"path/filepath"
	"testing"
)

// A project has a deadline while there is a file for it, whatever that is.
func TestDeadline(t *testing.T) {
	t.Parallel()
	p := Project{State: t.TempDir()}
	if got := p.Deadline(); got != "" {
		t.Errorf("without a file: %s", got)
	}
	file := filepath.Join(p.State, "deadline")
	if err := os.Symlink("nowhere", file); err != nil {
		t.Fatal(err)
	}
	if got := p.Deadline(); got != file || p.DeadlineFile() != file {
		t.Errorf("%s", got)
	}
}
