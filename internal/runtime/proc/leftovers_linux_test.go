package proc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

// saver saves its work when it is asked to stop, which takes longer than its shell runs.
const saver = `#!/bin/sh
trap 'sleep 0.3; echo saved > "$1"; exit 0' TERM
echo ready
while :; do sleep 0.05; done
`

// The processes of a shell also have the grace period, whatever the shell does. The stop is over
// as soon as nothing is left.
func TestRestHasTheGracePeriod(t *testing.T) {
	for name, script := range map[string]string{
		"prefix":     `FOO=bar "$1" "$2"`,
		"list":       `"$1" "$2"; exit 3`,
		"nested":     `sh -c '"$1" "$2"; :' sh "$1" "$2"; :`,
		"pipeline":   `"$1" "$2" | cat`,
		"background": `"$1" "$2" & wait`,
		"own group":  `set -m; "$1" "$2" & wait`,
		"session":    `setsid "$1" "$2" & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, saved := filepath.Join(dir, "w.sh"), filepath.Join(dir, "saved")
			exectest.Write(t, file, saver)
			p, out := start(t, sh(script, file, saved))
			out.await(t, "ready")
			if !p.End(2 * testTimeout) {
				t.Fatal("it has not ended")
			}
			if e := p.Exit(); e.Kind != supervisor.ShutDown {
				t.Errorf("exit = %v, want that of the shell", e)
			}
			if _, err := os.Stat(saved); err != nil {
				t.Errorf("it was killed while it saved its work: %v", err)
			}
		})
	}
}

// What is left after the grace period is killed. The exit is still that of the leader.
func TestRestIsKilledAfterTheGracePeriod(t *testing.T) {
	const deaf = `sh -c 'trap "" TERM HUP; echo "member $$"; while :; do sleep 1000; done' & wait`
	const grace = time.Second
	p, out := start(t, sh(deaf))
	pid := out.await(t, "member ")
	begin := time.Now()
	if !p.End(grace) {
		t.Fatal("it has not ended")
	}
	if d := time.Since(begin); d < grace {
		t.Errorf("it was killed after %v, before its grace period was over", d)
	}
	if e := p.Exit(); e.Kind != supervisor.ShutDown {
		t.Errorf("exit = %v, want that of the shell", e)
	}
	gone(t, pid)

	p, out = start(t, sh(deaf))
	pid = out.await(t, "member ")
	p.Stop()
	p.Kill() // a second, forced stop
	exitOf(t, p)
	gone(t, pid)
}
