package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// Restoring the backup of a running fleet brings its state back, even if all state was lost.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.wantFailure(1, []string{"backup", "b.db"}, "no such file")
	f.do("up", "-d")
	f.do("belief", "set", "a", "x=5")
	f.do("task", "add", "to be done")
	if out := f.do("backup", "b.db"); !strings.Contains(out, filepath.Join(f.dir, "b.db")) {
		t.Errorf("backup: %s", out)
	}
	if info, err := os.Stat(filepath.Join(f.dir, "b.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	f.wantFailure(1, []string{"backup", "b.db"}, "b.db exists")
	f.wantFailure(1, []string{"restore", "b.db"}, "a daemon is already running for")
	f.do("belief", "set", "a", "x=6")
	epoch := f.lastEvent().Epoch
	agent := f.node("t/a").PID
	f.crash()
	f.wantFailure(1, []string{"restore", "b.db"}, "t/a still run without a daemon", "coppice down")
	f.do("up", "-d")
	if pid := f.node("t/a").PID; pid != agent {
		t.Errorf("process %d, was %d", pid, agent)
	}
	f.do("down")
	f.do("backup", "later.db") // without a daemon

	check := func(x int) {
		t.Helper()
		f.do("up", "-d")
		if got := f.belief("a", "x"); !strings.Contains(got, fmt.Sprint(x)) {
			t.Errorf("x is %q, want %d", got, x)
		}
		if out := f.do("task", "ls"); !strings.Contains(out, "to be done") {
			t.Errorf("tasks: %s", out)
		}
		f.awaitState("t/a", "running")
		if e := f.lastEvent(); e.Epoch == epoch {
			t.Error("the epoch is what it was")
		}
		f.do("down")
	}
	if out := f.do("restore", "b.db"); !strings.Contains(out, "state.db.replaced-") {
		t.Errorf("restore: %s", out)
	}
	check(5)
	for _, name := range []string{"state.db", ""} {
		if err := os.RemoveAll(f.state(name)); err != nil {
			t.Fatal(err)
		}
		f.do("restore", "later.db")
		check(6)
	}
	f.do("up", "-d")
	restored := 0
	for _, e := range f.eventsOf() {
		if e.Type == event.StoreRestored && strings.Contains(e.Message, "later.db") {
			restored++
		}
	}
	if restored != 1 {
		t.Errorf("told %d times", restored)
	}
}

// An invalid backup is rejected with the reason, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper)+remembers)
	f.do("up", "-d")
	f.do("belief", "set", "a", "x=5")
	f.do("backup", "b.db")
	f.do("down")
	data, err := os.ReadFile(filepath.Join(f.dir, "b.db"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(f.dir, "half.db"), string(data[:len(data)/2]))
	write(t, filepath.Join(f.dir, "text.db"), "a letter")
	f.wantFailure(1, []string{"restore", "half.db"}, "half.db cannot be restored")
	f.wantFailure(1, []string{"restore", "text.db"}, "text.db cannot be restored", "no SQLite database")
	f.wantFailure(1, []string{"restore", "none.db"}, "none.db", "no such file")
	f.wantFailure(2, []string{"restore"}, "takes one argument")
	f.do("up", "-d")
	if x := f.belief("a", "x"); !strings.Contains(x, "5") {
		t.Errorf("x is %q", x)
	}
}

func TestBackupOfMemory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper), "[persistence]\nbackend = \"memory\"\n")
	for _, command := range []string{"backup", "restore"} {
		f.wantFailure(1, []string{command, "b.db"}, "in memory")
	}
}
