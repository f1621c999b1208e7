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
