package runtimetest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// saver saves its work when it is asked to stop, which takes longer than its
// shell lives. On a terminal the kernel tells it that its shell has ended.
const saver = `#!/bin/sh
trap 'echo saving; sleep 0.3; echo saved > "$1"; exit 0' TERM
trap '' HUP PIPE
echo ready
while :; do sleep 0.05; done
`

// shells are scripts whose shell dies of the stop signal before what it has
// started: $1 is that, $2 its argument.
var shells = map[string]string{
	"prefix":   `FOO=bar "$1" "$2"`,
	"nested":   `sh -c '"$1" "$2"; :' sh "$1" "$2"; :`,
	"pipeline": `"$1" "$2" | cat`,
}

// stopNever is a grace period that is over after the test.
const stopNever = 10 * Timeout

// testRest: what a shell has started has the grace period, too, and the stop is
// over when it has ended.
func testRest(t *testing.T, b *harness) {
	dir := t.TempDir()
	file := filepath.Join(dir, "w.sh")
	if err := os.WriteFile(file, []byte(saver), 0o700); err != nil {
		t.Fatal(err)
	}
	r := b.runtime()
	for name, script := range shells {
		saved := filepath.Join(dir, name)
		l := sh("app/"+name, 1, script)
		l.Argv, l.Grace = append(l.Argv, file, saved), stopNever
		s := b.start(r, l)
		b.until(s, "ready")
		s.Stop()
		if e := b.exit(s); e.Kind != supervisor.ShutDown {
			t.Errorf("%s: exit = %v, want that of the shell", name, e)
		}
		if _, err := os.Stat(saved); err != nil {
			t.Errorf("%s: killed while it saved its work: %v", name, err)
		}
	}
}

// deaf is what a shell has started that ends of SIGKILL alone.
const deaf = `sh -c 'trap "" TERM HUP; echo "member $$"; while :; do sleep 0.05; done'; :`

// testRestKilled: what is left after the grace period is killed, at the end of
// the ladder, of its life, or of testTimeout.
func testRestKilled(t *testing.T, b *harness) {
	r := b.runtime()
	const grace = time.Second
	for name, stop := range map[string]func(runtime.Session){
		"ladder": runtime.Session.Stop,
		"forced": func(s runtime.Session) { s.Stop(); s.Kill() },
	} {
		l := sh("app/"+name, 1, deaf)
		if l.Grace = grace; name == "forced" {
			l.Grace = stopNever
		}
		s := b.start(r, l)
		pid := b.until(s, "member ")
		begin := time.Now()
		stop(s)
		e := b.exit(s)
		if d := time.Since(begin); name == "ladder" && d < grace {
			t.Errorf("%s: ended after %v, the grace period is %v", name, d, grace)
		}
		if name == "ladder" && e.Kind != supervisor.ShutDown {
			t.Errorf("%s: exit = %v, want that of the shell", name, e)
		}
		b.gone(pid)
	}
}

// testRestOfAdopted: a successor of who asked can force it, and sees the end.
func testRestOfAdopted(t *testing.T, b *harness) {
	r := b.runtime()
	l := sh("app/a", 1, deaf)
	l.Grace = stopNever
	s := b.start(r, l)
	pid := b.until(s, "member ")
	s.Stop()
	if second := b.adopt(b.runtime(), "app/a"); second.Observe().Life == runtime.Alive {
		second.Kill()
		b.exit(second)
	}
	b.exit(s)
	b.gone(pid)
}
