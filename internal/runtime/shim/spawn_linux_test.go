package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// An error about a shim quotes the last line of its log only if that is a regular file: the
// agent can replace it, and the daemon reads it.
func TestShimLogIsNoFile(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("private\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		place func(name string) error
		want  string
	}{
		"file": {func(name string) error {
			return os.WriteFile(name, []byte("at 1 coppice shim 7: first\nat 2 coppice shim 7: last\nat 3 coppice shim 70: another\n"), 0o600)
		}, `says "at 2 coppice shim 7: last"`},
		"huge file": {func(name string) error { return errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, 1<<40)) }, "may say more"},
		"link":      {func(name string) error { return os.Symlink(outside, name) }, "may say more"},
		"fifo":      {func(name string) error { return syscall.Mkfifo(name, 0o600) }, "may say more"},
	} {
		t.Run(kind, func(t *testing.T) {
			r := &Runtime{Table: &slots.Table[*slot]{Dir: t.TempDir()}}
			if err := c.place(filepath.Join(r.Dir, wire.ShimLog)); err != nil {
				t.Fatal(err)
			}
			said := make(chan struct{})
			var text string
			go func() {
				defer close(said)
				text = r.logHint(7)
			}()
			wait(t, "what the shim has said", said)
			if !strings.Contains(text, c.want) {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}

// The error about a shim that ends before it answers says how it ended.
func TestShimEndsAtOnce(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":     "exit code 3",
		"exit 0":     "exit code 0",
		"kill -9 $$": "ended by SIGKILL",
	} {
		t.Run(script, func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), "shim")
			exectest.Write(t, exe, "#!/bin/sh\n"+script+"\n")
			r := openWith(t, Options{Dir: slotsDir(t), Executable: exe})
			_, err := r.Start(ctxOf(t), sh("app/a", 1, "exit 0"))
			if err == nil || !strings.Contains(err.Error(), "starting a shim ("+want+"; ") ||
				!strings.Contains(err.Error(), "greeting the shim") {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}
