package offline

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

const file = `[project]
name = "t"

[[agent]]
name = "a"
command = ["sleep", "1"]
`

// newProject creates a project, and returns its file and the project.
func newProject(t *testing.T, content string) (string, project.Project) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "coppice.toml")
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	return config, p
}

// keep writes a record, and returns its value before.
func keep(t *testing.T, p project.Project, value string) (before string) {
	t.Helper()
	ctx := context.Background()
	db, err := sqlite.Open(ctx, p.Database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	records, _, err := db.Snapshot(ctx, "test/key")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		before = string(r.Value)
	}
	if _, err := db.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: "test/key", Value: []byte(value)}}); err != nil {
		t.Fatal(err)
	}
	return before
}

// A restored store has the content of the backup, and the next daemon finds an orderly shutdown.
func TestBackup(t *testing.T) {
	config, p := newProject(t, file)
	keep(t, p, "old")
	to := filepath.Join(t.TempDir(), "backup")
	if _, err := Backup(t.Context(), config, to); err != nil {
		t.Fatal(err)
	}
	keep(t, p, "new")
	if _, err := Restore(t.Context(), config, to, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := keep(t, p, "later"); got != "old" {
		t.Errorf("%q is restored", got)
	}
	if project.Killed(config) {
		t.Error("the last daemon seems to have been killed")
	}
}

// While a daemon runs, nothing is replaced or stopped.
func TestLocked(t *testing.T) {
	config, p := newProject(t, file)
	keep(t, p, "old")
	to := filepath.Join(t.TempDir(), "backup")
	if _, err := Backup(t.Context(), config, to); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p.Slots(), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	var locked *project.LockedError
	if _, err := Restore(t.Context(), config, to, slog.Default()); !errors.As(err, &locked) {
		t.Errorf("restore: %v", err)
	}
	if _, err := Stop(t.Context(), config, slog.Default()); !errors.As(err, &locked) {
		t.Errorf("stop: %v", err)
	}
}

func TestInMemory(t *testing.T) {
	config, _ := newProject(t, file+"[persistence]\nbackend = \"memory\"\n")
	if _, err := Backup(t.Context(), config, filepath.Join(t.TempDir(), "b")); !errors.Is(err, errInMemory) {
		t.Error(err)
	}
}

// The state of a node is not in its database.
func TestInFleet(t *testing.T) {
	config, p := newProject(t, file)
	keep(t, p, "from before")
	if err := os.Mkdir(p.Node(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Node(), "node.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "b.db")
	if _, err := Backup(t.Context(), config, backup); !errors.Is(err, errInFleet) {
		t.Error(err)
	}
	if _, err := Restore(t.Context(), config, backup, slog.New(slog.DiscardHandler)); !errors.Is(err, errInFleet) {
		t.Error(err)
	}
}
