package runtimetest

import (
	"errors"
	"strconv"
	"strings"
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
	slowScript   = `trap 'echo TERM; sleep 1.5; exit 0' TERM; echo "pid $$"; while :; do sleep 0.05; done`
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

// testNodeLeaves checks that agents end with their own grace periods when their node leaves the fleet, with exits that
// say so, except those that were asked to stop before. Nothing is started then until there is another deadline.
func testNodeLeaves(t *testing.T, b *harness) {
	l := NewLease(t)
	until := l.Renew(time.Hour)
	r := b.openUntil(l)
	graces := map[string]time.Duration{ // the default is longer than the first two and shorter than the last
		"deaf": time.Second, "family": time.Second, "slow": time.Minute,
	}
	scripts := map[string]string{"deaf": deafScript, "family": familyScript, "slow": slowScript}
	ids, sessions := make(map[string]proc.Identity), make(map[string]runtime.Session)
	for path, grace := range graces {
		launch := sh("app/"+path, 1, scripts[path])
		launch.Grace = grace
		ids[path] = b.process(r, launch)
		sessions[path] = b.adopt(r, "app/"+path)
	}
	b.process(r, sh("app/stopped", 1, slowScript))
	stopped := b.adopt(r, "app/stopped")
	stopped.Stop()
	b.until(stopped, "TERM")
	r.(runtime.Expirer).CheckDeadline(b.ctx()) // nothing has changed
	l.MustRun(ids["deaf"], ids["family"], ids["slow"])

	left := l.Leave("n2")
	r.(runtime.Expirer).CheckDeadline(b.ctx())
	l.AwaitDeaths(left.Add(time.Second), left.Add(2*time.Second), ids["deaf"], ids["family"])
	l.AwaitDeaths(left.Add(1500*time.Millisecond), until, ids["slow"])
	for path := range graces {
		b.wantExpired(r, "app/"+path)
		if e := b.exit(sessions[path]); !strings.Contains(e.String(), "stopped because node n2 has left the fleet") ||
			strings.Contains(e.String(), "lease") {
			t.Errorf("%s: exit = %v", path, e)
		}
	}
	if e := b.exit(stopped); e.Kind != supervisor.ShutDown {
		t.Errorf("asked to stop before: exit = %v", e)
	}
	if _, err := r.Start(b.ctx(), sh("app/deaf", 2, forever)); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("start after that: %v", err)
	}
	l.Renew(2 * time.Hour)
	again := b.start(r, sh("app/deaf", 3, forever))
	l.Expire()
	r.(runtime.Expirer).CheckDeadline(b.ctx())
	if e := b.exit(again); !errors.Is(e.Err, runtime.ErrDeadline) || strings.Contains(e.String(), "n2") {
		t.Errorf("after the next lease: exit = %v", e)
	}
}
