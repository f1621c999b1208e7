package runtimetest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// saver saves its work when it is asked to stop, which takes longer than its shell runs. On a
// terminal the kernel signals the end of the shell.
const saver = `#!/bin/sh
trap 'echo saving; sleep 0.3; echo saved > "$1"; exit 0' TERM
trap '' HUP PIPE
echo ready
while :; do sleep 0.05; done
`

// shells are scripts whose shell dies of the stop signal before the program that it has started:
// $1 is that program, $2 its argument.
var shells = map[string]string{
	"prefix":   `FOO=bar "$1" "$2"`,
	"nested":   `sh -c '"$1" "$2"; :' sh "$1" "$2"; :`,
	"pipeline": `"$1" "$2" | cat`,
}

// stopNever is a grace period that ends after the test.
const stopNever = 10 * Timeout

// testRest checks that the processes of a shell also have the grace period, and that the stop is
// over when they have ended.
func testRest(t *testing.T, b *harness) {
	dir := t.TempDir()
	file := filepath.Join(dir, "w.sh")
	exectest.Write(t, file, saver)
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

// deaf is a shell with a child that ends of SIGKILL alone.
const deaf = `sh -c 'trap "" TERM HUP; echo "member $$"; while :; do sleep 0.05; done'; :`

// testRestKilled checks that what is left after the grace period is killed, whether the period
// ends or a kill comes first.
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

// testRestOfAdopted checks that a second daemon can kill what a first one has asked to stop, and
// sees the end.
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
