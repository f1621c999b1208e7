package project

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/private"
)

// An exit record must be a regular file, as an agent can replace it.
func TestExitRecordIsNoFile(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(`{"reason": "private"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, place := range map[string]func(name string) error{
		"link":      func(name string) error { return os.Symlink(outside, name) },
		"dead link": func(name string) error { return os.Symlink(outside+"-missing", name) },
		"fifo":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
	} {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "coppice.toml")
			p, err := Open(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Make(); err != nil {
				t.Fatal(err)
			}
			if err := private.WriteFile(p.lock(), []byte(`{"pid": 1}`)); err != nil {
				t.Fatal(err)
			}
			if err := place(p.exitRecord()); err != nil {
				t.Fatal(err)
			}
			if text := LastExit(file); text != "" {
				t.Errorf("the last controller: %s", text)
			}
			if Killed(file) {
				t.Error("the last controller is taken for killed, although something says how it ended")
			}
		})
	}
}

// A command that is no daemon leaves no trace of itself as the last daemon.
func TestLockOffline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coppice.toml")
	p, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	offline := func() {
		t.Helper()
		l, err := p.LockOffline()
		if err != nil {
			t.Fatal(err)
		}
		if h, locked := p.Locked(); !locked || h.PID != os.Getpid() {
			t.Errorf("not locked, or by %+v", h)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		if _, locked := p.Locked(); locked {
			t.Error("still locked")
		}
	}
	offline()
	if Killed(file) || LastExit(file) != "" || p.Holder() != (Holder{}) {
		t.Errorf("a daemon that never was is killed: %s, %+v", LastExit(file), p.Holder())
	}
	l, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	last := p.Holder()
	offline()
	if got := p.Holder(); !Killed(file) || got.PID != last.PID || !got.Since.Equal(last.Since) {
		t.Errorf("the last daemon was %+v, and is %+v", last, got)
	}
}
