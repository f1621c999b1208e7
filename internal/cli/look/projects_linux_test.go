package look

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/project"
)

// A project on a hung file system does not block the list of the others.
func TestProjectsTimeout(t *testing.T) {
	t.Parallel()
	// A pipe without a writer is not a lock file, and opening it would block.
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".coppice"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, ".coppice", "controller.lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if all := queryProjects(t.Context(), []project.Opened{{Project: p, PID: os.Getpid()}}, 30*time.Second); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}
