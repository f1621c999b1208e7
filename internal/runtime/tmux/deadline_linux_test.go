package tmux

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/supervisor"
)

// deaf is a script that does not end when it is asked to.
const deaf = `trap '' TERM HUP; echo "pid $$"; while :; do sleep 0.05; done`

// keeperOf returns the process of the keeper of a session.
func keeperOf(t *testing.T, s *session) int {
	t.Helper()
	c, leave, err := s.slot.keeper(ctxOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	return peerOf(t, c.UnixConn)
}

// startDeaf starts an agent with a grace period of a second.
func startDeaf(t *testing.T, r *Runtime) *session {
	t.Helper()
	launch := sh("app/a", 1, deaf)
	launch.Grace = time.Second
	s := start(t, r, launch)
	until(t, s, "pid ")
	return s
}

// wantExpired expects that the agent of a directory has ended because of the deadline.
func wantExpired(t *testing.T, dir, says string) {
	t.Helper()
	r := open(t, dir)
	all, err := r.List(ctxOf(t))
	for late := time.After(testTimeout); err == nil && len(all) == 1 && all[0].Life == runtime.Unknown; {
		// tmux sees the end somewhat later, or never: a session tells it, and there is none here.
		server, serverErr := r.lastServer()
		if serverErr != nil {
			t.Fatal(serverErr)
		}
		server.Signal(syscall.SIGCHLD)
		select {
		case <-late:
			t.Fatalf("listed: %+v", all)
		case <-time.After(5 * time.Millisecond):
		}
		all, err = r.List(ctxOf(t))
	}
	if err != nil || len(all) != 1 || !errors.Is(all[0].Exit.Err, runtime.ErrDeadline) {
		t.Errorf("listed: %+v, %v", all, err)
	}
	s, err := r.Adopt(ctxOf(t), "app/a")
	if err != nil {
		t.Fatal(err)
	}
	if e := exit(t, s); e.Kind != supervisor.Failure || !errors.Is(e.Err, runtime.ErrDeadline) ||
		!strings.Contains(e.Err.Error(), says) {
		t.Errorf("exit = %v", e)
	}
}

// A keeper that was paused over the deadline and the grace period ends its agent right after that.
func TestDeadlineOfAPausedKeeper(t *testing.T) {
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	until := l.Renew(3 * time.Second)
	r := openUntil(t, dir, l.File).(*Runtime)
	s := startDeaf(t, r)
	keeper := keeperOf(t, s)
	r.Close()
	exectest.Signal(t, keeper, syscall.SIGSTOP)
	deadline.Wait(nil, until.Add(1500*time.Millisecond))
	l.MustRun(s.rec.Agent)
	now := l.Now()
	exectest.Signal(t, keeper, syscall.SIGCONT)
	l.AwaitDeaths(now, now.Add(time.Second), s.rec.Agent)
	wantExpired(t, dir, "")
}

// A keeper that does not answer, as one of an earlier version, is replaced by one that knows the deadline. It was
// killed here.
func TestDeadlineOfALostKeeper(t *testing.T) {
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	r := open(t, dir)
	s := startDeaf(t, r)
	keeper := keeperOf(t, s)
	r.Close()
	id, err := proc.Identify(keeper)
	if err != nil {
		t.Fatal(err)
	}
	id.Signal(syscall.SIGKILL)
	if err := id.AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	until := l.Renew(3 * time.Second)
	r = openUntil(t, dir, l.File).(*Runtime)
	if _, err := r.Adopt(ctxOf(t), "app/a"); err != nil {
		t.Fatal(err)
	}
	r.Close()
	l.AwaitDeaths(until.Add(time.Second), until.Add(2*time.Second), s.rec.Agent)
	wantExpired(t, dir, "")
}

// What a keeper knows stands when the file is damaged, and the reason is recorded.
func TestDeadlineDamaged(t *testing.T) {
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	until := l.Renew(3 * time.Second)
	r := openUntil(t, dir, l.File).(*Runtime)
	s := startDeaf(t, r)
	r.Close()
	l.Damage("soon")
	l.AwaitDeaths(until.Add(time.Second), until.Add(2*time.Second), s.rec.Agent)
	wantExpired(t, dir, "not a deadline")
}

// The keeper stays with an agent whose pane was closed, and ends it.
func TestDeadlineWithoutAPane(t *testing.T) {
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	until := l.Renew(3 * time.Second)
	r := openUntil(t, dir, l.File).(*Runtime)
	s := startDeaf(t, r)
	start(t, r, sh("app/b", 1, forever)) // the server stays
	command(t, r, "kill-pane", "-t", s.rec.Pane)
	r.Close()
	l.AwaitDeaths(until.Add(time.Second), until.Add(2*time.Second), s.rec.Agent)
}

// A process that has left its agent, and outlives it without a daemon, ends at the deadline.
func TestDeadlineOfWhatIsLeft(t *testing.T) {
	l, dir := runtimetest.NewLease(t), slotsDir(t)
	until := l.Renew(3 * time.Second)
	r := openUntil(t, dir, l.File).(*Runtime)
	s := start(t, r, sh("app/a", 1, `setsid sh -c 'trap "" TERM HUP; echo "pid $$"; exec <&- >&- 2>&-; `+
		`while :; do sleep 0.05; done' & read x; exit 0`))
	left := pidOf(t, s)
	r.Close()
	if err := s.rec.Agent.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.AwaitDeaths(l.Now(), until, s.rec.Agent)
	l.MustRun(left)
	l.AwaitDeaths(until, until.Add(s.rec.Grace+time.Second), left)
}

// pidOf returns the process whose pid an agent prints.
func pidOf(t *testing.T, s *session) proc.Identity {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(until(t, s, "pid "), "pid "))
	if err != nil {
		t.Fatal(err)
	}
	id, err := proc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A record that is none, or of another incarnation, is no end by the deadline.
func TestExpired(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"version":1,"incarnation":3}`:           true,
		`{"version":1,"incarnation":3,"why":"x"}`: true,
		`{"version":1,"incarnation":2}`:           false,
		`{"version":2,"incarnation":3}`:           false,
		`{"version":1,"incarnation":3`:            false,
		``:                                        false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/"+pane.ExpiredFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := pane.Expired(dir, 3); (err != nil) != want || want && !errors.Is(err, runtime.ErrDeadline) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := pane.Expired(t.TempDir(), 3); err != nil {
		t.Error(err)
	}
	_, err := Open(Options{Dir: t.TempDir(), Deadline: "deadline"})
	if err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative name: %v", err)
	}
}
