package runtimetest

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// OpenUntil opens a Runtime over a directory whose agents end at the deadline in a file.
type OpenUntil func(t testing.TB, state, file string) runtime.Runtime

// Scripts that print the pids of their processes, each after "pid ".
const (
	politeScript = `trap 'exit 0' TERM; echo "pid $$"; while :; do sleep 0.05; done`
	deafScript   = `trap '' TERM HUP; echo "pid $$"; while :; do sleep 0.05; done`
	familyScript = `setsid sh -c 'trap "" TERM HUP; echo "pid $$"; while :; do sleep 0.05; done' & wait`
)

// process starts an agent and returns the process whose pid it prints.
func (b *harness) process(r runtime.Runtime, l runtime.Launch) proc.Identity {
	b.Helper()
	pid, err := strconv.Atoi(b.until(b.start(r, l), "pid "))
	if err != nil {
		b.Fatal(err)
	}
	id, err := proc.Identify(pid)
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// wantExpired expects that the last incarnation of an agent has ended because of the deadline.
func (b *harness) wantExpired(r runtime.Runtime, path string) {
	b.Helper()
	if e := b.exit(b.adopt(r, path)); e.Kind != supervisor.Failure || !errors.Is(e.Err, runtime.ErrDeadline) {
		b.Errorf("%s: exit = %v", path, e)
	}
}

// openUntil opens a Runtime with a deadline, and closes it at the end of the test.
func (b *harness) openUntil(l *Lease) runtime.Runtime {
	b.Helper()
	r := b.Until(b.T, b.state, l.File)
	b.Cleanup(func() { r.Close() })
	b.last = r
	return r
}

// testDeadline checks that agents run while the deadline is moved, that they end at the deadline without a daemon,
// and that nothing is started then until it is moved.
func testDeadline(t *testing.T, b *harness) {
	l := NewLease(t)
	const ttl, grace = 2 * time.Second, time.Second
	begin := l.Now()
	stop := l.Keep(ttl)
	r := b.openUntil(l)
	ids := make(map[string]proc.Identity)
	for path, script := range map[string]string{"polite": politeScript, "deaf": deafScript, "family": familyScript} {
		launch := sh("app/"+path, 1, script)
		launch.Grace = grace
		ids[path] = b.process(r, launch)
	}
	r.Close()
	deadline.Wait(nil, begin.Add(ttl+ttl/2)) // the first deadline that was read has passed
	l.MustRun(ids["polite"], ids["deaf"], ids["family"])

	until := stop()
	l.AwaitDeaths(until, until.Add(time.Second), ids["polite"])
	l.AwaitDeaths(until.Add(grace), until.Add(grace+time.Second), ids["deaf"], ids["family"])

	r = b.openUntil(l)
	for path := range ids {
		b.wantExpired(r, "app/"+path)
	}
	for _, text := range []string{"", "garbage"} {
		if text != "" {
			l.Damage(text)
		}
		for _, launch := range []runtime.Launch{sh("app/deaf", 2, forever), sh("other/new", 1, forever)} {
			if _, err := r.Start(b.ctx(), launch); !errors.Is(err, runtime.ErrFenced) {
				t.Errorf("start of %s after the deadline: %v", launch.Path, err)
			}
		}
	}
	l.Renew(time.Hour)
	b.start(r, sh("app/deaf", 3, forever))
	b.start(r, sh("other/new", 2, forever))
}

// testDeadlineAdopted checks that agents that were started without a deadline end at that of a Runtime that has
// adopted them, and that one without a deadline changes nothing.
func testDeadlineAdopted(t *testing.T, b *harness) {
	l := NewLease(t)
	r := b.runtime()
	id := b.process(r, sh("app/a", 1, politeScript))
	r.Close()
	until := l.Renew(2 * time.Second)
	r = b.openUntil(l)
	b.adopt(r, "app/a")
	r.Close()
	r = b.runtime()
	b.adopt(r, "app/a")
	r.Close()
	l.AwaitDeaths(until, until.Add(time.Second), id)
	b.wantExpired(b.runtime(), "app/a")
}
