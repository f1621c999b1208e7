package runtimetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/landlock/landlocktest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// testPaths checks that an agent and its readiness command can write only to its paths, and that a
// kind of runtime that cannot enforce that starts nothing.
func testPaths(t *testing.T, b *harness) {
	dir := t.TempDir()
	work, outside := filepath.Join(dir, "work"), filepath.Join(dir, "outside")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	r := b.runtime()
	l := sh("app/a", 1, "echo a > work/agent; echo a > outside; echo done; "+forever)
	l.Dir = dir
	l.Paths = landlock.New([]string{work}, nil).WithOwnSignals(true)
	if r.Kind() != "proc" {
		if _, err := r.Start(b.ctx(), l); !errors.Is(err, runtime.ErrUnsupported) {
			t.Errorf("started, with %v", err)
		}
		return
	}
	landlocktest.Need(t)
	for n, terminal := range []bool{false, true} {
		l.Incarnation, l.Terminal = uint64(n+1), terminal
		l.Ready = spec.Ready{Exec: []string{"/bin/sh", "-c", "echo x > work/probe; ! echo x > outside"}}
		s := b.start(r, l)
		b.until(s, "done")
		for _, name := range []string{"agent", "probe"} {
			if _, err := os.Stat(filepath.Join(work, name)); err != nil {
				t.Errorf("terminal %v: %v", terminal, err)
			}
		}
		if _, err := os.Stat(outside); err == nil {
			t.Fatalf("terminal %v: it could write to %s", terminal, outside)
		}
		s.Kill()
		b.exit(s)
	}
	l.Incarnation, l.Paths = 3, landlock.New([]string{filepath.Join(dir, "none")}, nil)
	if _, err := r.Start(b.ctx(), l); !errors.Is(err, proc.ErrCommand) || !strings.Contains(err.Error(), "none: ") {
		t.Errorf("started although a path is missing, with %v", err)
	}
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Errorf("the program that starts agents is limited: %v", err)
	}
}
