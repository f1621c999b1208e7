package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// played is a session whose part is played by a test.
type played struct {
	runtime.Session
	done chan struct{}
	obey bool // ends when it is told to, by whatever means

	mu   sync.Mutex
	got  []string
	at   []time.Time
	exit supervisor.Exit
}

const playedPID = 42

func newPlayed(obey bool) *played { return &played{done: make(chan struct{}), obey: obey} }

func (s *played) Done() <-chan struct{} { return s.done }
func (s *played) Exit() supervisor.Exit { return s.exit }

// Observe has no PID after the end, like any session.
func (s *played) Observe() runtime.Observation {
	if isClosed(s.done) {
		return runtime.Observation{}
	}
	return runtime.Observation{PID: playedPID}
}

func (s *played) Stop() { s.told("stop", s.obey, supervisor.Exit{Kind: supervisor.ShutDown}) }
func (s *played) Kill() {
	s.told("kill", true, supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled})
}

func (s *played) Signal(_ context.Context, sig syscall.Signal) error {
	s.told(sig.String(), s.obey, supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: -1, Signal: sig}})
	return nil
}

func (s *played) told(what string, ends bool, exit supervisor.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.at = append(s.got, what), append(s.at, time.Now())
	select {
	case <-s.done:
	default:
		if ends {
			s.exit = exit
			close(s.done)
		}
	}
}

var errUnhealthy = errors.New("watchdog: nothing heard for 30s")

func never() bool { return false }

// waitFor waits for the end of a process, as its supervisor does, and sends the exit.
func waitFor(p *Process) <-chan supervisor.Exit {
	exit := make(chan supervisor.Exit, 1)
	go func() { exit <- p.Wait() }()
	return exit
}

// alone is the order of an agent that is stopped with no other.
type alone struct{}

func (alone) Await(context.Context) (time.Duration, bool) { return 0, false }
func (alone) Bound() time.Duration                        { return 0 }

func TestFail(t *testing.T) {
	abort, cont := syscall.SIGABRT.String(), syscall.SIGCONT.String()
	for _, c := range []struct {
		name string
		sig  syscall.Signal
		obey bool
		got  []string
	}{
		{"obeys the signal", syscall.SIGABRT, true, []string{abort, cont}},
		{"obeys its own stop signal", 0, true, []string{"stop"}},
		{"does not obey", syscall.SIGABRT, false, []string{abort, cont, "kill"}},
		{"does not stop", 0, false, []string{"stop", "kill"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPlayed(c.obey)
				p := newProcess(s, never, 5*time.Second, lifecycleHooks{}, alone{})
				ended := waitFor(p)
				begin := time.Now()
				if !p.Fail(errUnhealthy, c.sig) || p.Fail(errors.New("another"), 0) {
					t.Error("it can be failed once")
				}
				e := <-ended
				synctest.Wait()
				if want := map[bool]time.Duration{true: 0, false: 5 * time.Second}[c.obey]; time.Since(begin) != want {
					t.Errorf("took %v, want %v", time.Since(begin), want)
				}
				if !slices.Equal(s.got, c.got) {
					t.Errorf("it was told %q, want %q", s.got, c.got)
				}
				if e.Kind != supervisor.Failure || !errors.Is(e.Err, errUnhealthy) || e.Err.Error() != errUnhealthy.Error() {
					t.Errorf("exit: %v", e)
				}
				var how *proc.ExitError
				if c.sig != 0 && c.obey && (!errors.As(e.Err, &how) || how.Signal != c.sig) {
					t.Errorf("how it ended is lost: %#v", e.Err)
				}
				if p.Fail(errUnhealthy, 0) {
					t.Error("failed after its end")
				}
			})
		})
	}
}

// Abort kills at once, without asking, and the exit has the reason.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlayed(true)
		p := newProcess(s, never, time.Hour, lifecycleHooks{}, alone{})
		ended := waitFor(p)
		begin := time.Now()
		if !p.Abort(errUnhealthy) || p.Abort(errUnhealthy) || !p.Leaving() {
			t.Error("it can be ended once")
		}
		if e := <-ended; !errors.Is(e.Err, errUnhealthy) || time.Since(begin) != 0 || !slices.Equal(s.got, []string{"kill"}) {
			t.Errorf("%v after %v, it was told %q", e, time.Since(begin), s.got)
		}
	})
}

// An incarnation that was asked to end cannot be failed.
func TestFailTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlayed(true)
		p := newProcess(s, never, time.Second, lifecycleHooks{}, alone{})
		ended := waitFor(p)
		s.obey = false
		p.Stop()
		if p.Fail(errUnhealthy, syscall.SIGABRT) {
			t.Error("failed after it was asked to end")
		}
		p.Kill()
		if e := <-ended; e.Kind != supervisor.Killed {
			t.Errorf("exit: %v", e)
		}

		keep := false
		s = newPlayed(true)
		p = newProcess(s, func() bool { return keep }, time.Second, lifecycleHooks{}, alone{})
		ended = waitFor(p)
		keep = true
		if p.Fail(errUnhealthy, syscall.SIGABRT) {
			t.Error("failed by a controller that keeps its agents")
		}
		p.Stop()
		if e := <-ended; e.Kind != supervisor.ShutDown || len(s.got) > 0 {
			t.Errorf("exit: %v, told %q", e, s.got)
		}
	})
}

// The hooks run in order, each once, before the supervisor learns of the end.
func TestLifecycleHooks(t *testing.T) {
	crash := supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 3}}
	slow := 10 * time.Second
	for _, c := range []struct {
		name string
		do   func(p *Process, s *played, keep *bool)
		want []string
		took time.Duration
	}{
		{"ends by itself", func(_ *Process, s *played, _ *bool) { s.told("", true, supervisor.Exit{Kind: supervisor.Normal}) }, []string{"over"}, 0},
		{"crashes", func(_ *Process, s *played, _ *bool) { s.told("", true, crash) }, []string{"failed failure", "over"}, slow},
		{"stopped", func(p *Process, _ *played, _ *bool) { p.Stop(); p.Stop() }, []string{"rest", "over"}, slow},
		{"killed", func(p *Process, _ *played, _ *bool) { p.Kill() }, []string{"over"}, 0},
		{"killed at rest", func(p *Process, _ *played, _ *bool) {
			p.Stop()
			time.Sleep(time.Second)
			p.Kill()
		}, []string{"rest: the agent is killed", "over"}, time.Second},
		{"failed", func(p *Process, _ *played, _ *bool) { p.Fail(errUnhealthy, 0) }, []string{"failed failure", "over"}, slow},
		{"crashes and is stopped then", func(p *Process, s *played, _ *bool) {
			s.told("", true, crash)
			time.Sleep(time.Second)
			p.Stop()
			if p.Fail(errUnhealthy, 0) {
				panic("failed after its end")
			}
		}, []string{"failed failure", "over"}, slow},
		{"crashes at rest", func(p *Process, s *played, _ *bool) {
			p.Stop()
			time.Sleep(time.Second)
			s.told("", true, crash)
		}, []string{"rest", "over"}, slow},
		{"let go", func(p *Process, _ *played, keep *bool) { *keep = true; p.Stop() }, nil, 0},
		{"let go after a crash", func(p *Process, s *played, keep *bool) {
			s.told("", true, crash)
			time.Sleep(time.Second)
			*keep = true
			p.Stop()
		}, []string{"failed failure: the daemon ends and leaves the agent running", "over"}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				turn := func(ctx context.Context, what string) {
					select {
					case <-time.After(slow):
					case <-ctx.Done():
						what += ": " + context.Cause(ctx).Error()
					}
					got = append(got, what)
				}
				keep, s, begin := false, newPlayed(true), time.Now()
				p := newProcess(s, func() bool { return keep }, time.Minute, lifecycleHooks{
					beforeStop: func(ctx context.Context) { turn(ctx, "rest") },
					failed:     func(ctx context.Context, exit supervisor.Exit) { turn(ctx, "failed "+exit.Kind.String()) },
					ended:      func(supervisor.Exit, bool) { got = append(got, "over") },
				}, alone{})
				ended := waitFor(p)
				c.do(p, s, &keep)
				<-ended
				if took := time.Since(begin); !slices.Equal(got, c.want) || took != c.took {
					t.Errorf("got %q after %v, want %q after %v", got, took, c.want, c.took)
				}
			})
		})
	}
}

// An agent that has ended because its node has left the fleet is started again, and no limit counts that. Another end
// that was not asked for here is the agent's own, and one that was asked to stop stays stopped.
func TestEndOnItsNode(t *testing.T) {
	left := supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("%w: node b", runtime.ErrDeadline)}
	for name, c := range map[string]struct {
		end     func(*Process, *played)
		kind    supervisor.ExitKind
		retries bool
	}{
		"its node leaves": {func(_ *Process, s *played) { s.told("left", true, left) }, supervisor.Failure, true},
		"it is asked to stop, and its node leaves": {func(p *Process, s *played) {
			s.obey = false
			p.Stop()
			s.told("left", true, left)
		}, supervisor.Failure, false},
		"SIGTERM of a person": {func(_ *Process, s *played) { s.Signal(t.Context(), syscall.SIGTERM) },
			supervisor.Failure, false},
		"stopped there": {func(_ *Process, s *played) { s.Stop() }, supervisor.ShutDown, false},
		"killed there":  {func(_ *Process, s *played) { s.Kill() }, supervisor.Killed, false},
		"asked to stop": {func(p *Process, _ *played) { p.Stop() }, supervisor.ShutDown, false},
		"it has ended": {func(_ *Process, s *played) {
			s.told("end", true, supervisor.Exit{Kind: supervisor.Normal})
		}, supervisor.Normal, false},
	} {
		s := newPlayed(true)
		hooks := &hookRunner{m: new(Manager), agent: &spec.Agent{Restart: supervisor.Permanent}}
		p := newProcess(s, never, time.Second, lifecycleHooks{classify: hooks.classify}, alone{})
		c.end(p, s)
		exit := p.Wait()
		if _, retries := errors.AsType[*supervisor.RetryError](exit.Err); exit.Kind != c.kind || retries != c.retries {
			t.Errorf("%s: %v, it is started again without being counted: %v", name, exit, retries)
		}
	}
}
