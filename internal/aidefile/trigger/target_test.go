package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

var errFailed = errors.New("failed")

// fakeRun is a run that lasts some time and ends with a prepared exit.
type fakeRun struct {
	lasts <-chan time.Time
	stop  chan struct{}
	exit  supervisor.Exit
}

func (l *fakeRun) Wait() supervisor.Exit {
	select {
	case <-l.lasts:
		return l.exit
	case <-l.stop:
		return supervisor.Exit{Kind: supervisor.ShutDown}
	}
}

func (l *fakeRun) Stop() { close(l.stop) }
func (l *fakeRun) Kill() {}

func newFakeRun(d time.Duration, exit supervisor.Exit) *fakeRun {
	return &fakeRun{lasts: time.After(d), stop: make(chan struct{}), exit: exit}
}

// harness is an agent below a supervisor.
type harness struct {
	Target
	begun []time.Time          // when its runs began
	next  func(n int) *fakeRun // the n-th run, counted from 0; nil: it cannot be started
	limit []supervisor.Event

	refuse func() error // called before each start, unless nil
}

func newHarness(t testing.TB, p aidefile.Policy, next func(n int) *fakeRun) *harness {
	r := &harness{next: next}
	r.gate = newRunGate(p, false)
	restart, backoff, limit := p.Child(0)
	r.ID = "agent"
	r.spec = supervisor.ChildSpec{ID: r.ID, Restart: restart, Backoff: backoff, Limit: limit, Start: r.gate.wrap(
		func(context.Context) (supervisor.Process, error) {
			if r.refuse != nil {
				if err := r.refuse(); err != nil {
					return nil, err
				}
			}
			r.begun = append(r.begun, time.Now())
			l := r.next(len(r.begun) - 1)
			if l == nil {
				return nil, errFailed
			}
			return l, nil
		})}
	down := r.spec
	down.Saved = &supervisor.Saved{State: supervisor.Stopped}
	sup, err := supervisor.Start(context.Background(), supervisor.Spec{Children: []supervisor.ChildSpec{down}, OnEvent: func(e supervisor.Event) {
		if l, ok := e.(supervisor.LimitReached); ok {
			r.limit = append(r.limit, l)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.Supervisor = sup
	return r
}

func (r *harness) fire(t testing.TB) error {
	err := r.Target.fire(context.Background(), func() {})
	if err != nil && !errors.Is(err, ErrSkipped) {
		t.Fatal(err)
	}
	synctest.Wait()
	return err
}

func (r *harness) state(t testing.TB) supervisor.State {
	s, err := r.Target.state()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *harness) end() {
	r.Supervisor.Stop()
	r.Supervisor.Wait()
}

// sleeps returns the delays between runs of a known duration, in seconds.
func (r *harness) sleeps(run time.Duration) (all []float64) {
	for i := 1; i < len(r.begun); i++ {
		all = append(all, (r.begun[i].Sub(r.begun[i-1]) - run).Seconds())
	}
	return all
}

// script returns runs that succeed for "+" and cannot be started for "!". Others fail, and the last
// letter repeats.
func script(s string) func(int) *fakeRun {
	return func(n int) *fakeRun {
		switch s[min(n, len(s)-1)] {
		case '+':
			return newFakeRun(time.Second, supervisor.Exit{Kind: supervisor.Normal})
		case '!': // cannot be started
			return nil
		}
		return newFakeRun(time.Second, supervisor.Exit{Kind: supervisor.Failure, Err: errFailed})
	}
}

func policy(r supervisor.Restart, most int, b supervisor.BackoffKind) aidefile.Policy {
	return aidefile.Policy{Restart: r, MaxRestarts: most, Backoff: b}
}

// A chain of one firing has the expected runs and delays.
func TestChains(t *testing.T) {
	const always, onFailure, never = supervisor.Permanent, supervisor.Transient, supervisor.Temporary
	const exp, lin, fix = supervisor.Exponential, supervisor.Linear, supervisor.Fixed
	const forever = -1 // goes on: the first sleeps are compared
	for _, c := range []struct {
		name   string
		policy aidefile.Policy
		runs   string
		count  int
		sleeps []float64
		state  supervisor.State
	}{
		{"all fail, exponential", policy(onFailure, 3, exp), "-", 4, []float64{1, 2, 4}, supervisor.GivenUp},
		{"all fail, linear", policy(onFailure, 4, lin), "-", 5, []float64{1, 2, 3, 4}, supervisor.GivenUp},
		{"all fail, fixed", policy(onFailure, 3, fix), "-", 4, []float64{1, 1, 1}, supervisor.GivenUp},
		{"all fail, always", policy(always, 3, exp), "-", 4, []float64{1, 2, 4}, supervisor.GivenUp},
		{"aide's default", aidefile.Kept(), "-", 11, []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300}, supervisor.GivenUp},
		{"each sleep is capped", policy(onFailure, 12, exp), "-", 13, []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300}, supervisor.GivenUp},
		{"no restarts, on-failure", policy(onFailure, 0, exp), "-", 1, nil, supervisor.GivenUp},
		{"no restarts, always, failure", policy(always, 0, exp), "-", 1, nil, supervisor.GivenUp},
		{"no restarts, always, success", policy(always, 0, exp), "+", 1, nil, supervisor.GivenUp},
		{"no restarts, on-failure, success", policy(onFailure, 0, exp), "+", 1, nil, supervisor.Stopped},
		{"no restarts, never", policy(never, 0, exp), "-", 1, nil, supervisor.Stopped},
		{"never, failure", policy(never, 10, exp), "-", 1, nil, supervisor.Stopped},
		{"never, success", aidefile.Single(), "+", 1, nil, supervisor.Stopped},
		{"on-failure, success", aidefile.Kept(), "+", 1, nil, supervisor.Stopped},
		{"on-failure, success after failures", aidefile.Kept(), "--+", 3, []float64{1, 2}, supervisor.Stopped},
		{"always, successes are not counted", policy(always, 3, exp), "+", forever, []float64{1, 1, 1, 1, 1, 1, 1, 1}, 0},
		{"always, a success resets the count", policy(always, 10, exp), "--+-", 14, []float64{1, 2, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300}, supervisor.GivenUp},
		{"two streaks below the limit, then one at it", policy(always, 3, fix), "--+---+-", 11, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, supervisor.GivenUp},
		{"what cannot be started has failed", policy(onFailure, 3, exp), "!", 4, []float64{0, 1, 3}, supervisor.GivenUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newHarness(t, c.policy, script(c.runs))
				defer r.end()
				if err := r.fire(t); err != nil {
					t.Fatal(err)
				}
				if c.count == forever {
					time.Sleep(time.Duration(2*len(c.sleeps)) * time.Second)
				} else {
					time.Sleep(24 * time.Hour)
				}
				synctest.Wait()
				got := r.sleeps(time.Second)
				if c.count == forever {
					got = got[:len(c.sleeps)]
				} else if len(r.begun) != c.count {
					t.Errorf("%d runs, expected %d", len(r.begun), c.count)
				}
				if !slices.Equal(got, c.sleeps) {
					t.Errorf("sleeps %v, expected %v", got, c.sleeps)
				}
				if s := r.state(t); c.count != forever && s != c.state {
					t.Errorf("state %v, expected %v", s, c.state)
				}
				if announced := len(r.limit) == 1; announced != (c.state == supervisor.GivenUp) {
					t.Errorf("giving up was announced %d times", len(r.limit))
				}
			})
		})
	}
}

func TestAFiringDuringARunOrASleepIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, aidefile.Kept(), script("-"))
		defer r.end()
		r.fire(t)
		if err := r.fire(t); !errors.Is(err, ErrSkipped) {
			t.Errorf("a firing during a run: %v", err)
		}
		time.Sleep(1500 * time.Millisecond) // the run is over, the sleep is not
		synctest.Wait()
		if err := r.fire(t); !errors.Is(err, ErrSkipped) {
			t.Errorf("a firing during a sleep: %v", err)
		}
		if len(r.begun) != 1 {
			t.Errorf("%d runs, expected 1", len(r.begun))
		}
	})
}

func TestAfterGivingUpEachFiringIsOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, policy(supervisor.Transient, 2, supervisor.Fixed), script("-----+--+"))
		defer r.end()
		runs := func() int {
			before := len(r.begun)
			if err := r.fire(t); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			return len(r.begun) - before
		}
		for i, expected := range []int{
			3, 1, 1, // given up, and then once for each firing, as its count stays
			1, // a success clears it
			3, // so that two failures are restarted
		} {
			if n := runs(); n != expected {
				t.Errorf("firing %d led to %d runs, expected %d", i, n, expected)
			}
		}
		if len(r.limit) != 3 {
			t.Errorf("giving up was announced %d times, expected 3", len(r.limit))
		}
	})
}

// Each agent has its own count.
func TestAgentsOfOneSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, policy(supervisor.Transient, 2, supervisor.Fixed), script("-"))
		defer r.end()
		runs := 0
		other := Target{Supervisor: r.Supervisor, ID: "other", gate: newRunGate(policy(supervisor.Transient, 4, supervisor.Exponential), false)}
		restart, backoff, limit := policy(supervisor.Transient, 4, supervisor.Exponential).Child(0)
		other.spec = supervisor.ChildSpec{ID: other.ID, Restart: restart, Backoff: backoff, Limit: limit, Start: other.gate.wrap(
			func(context.Context) (supervisor.Process, error) {
				runs++
				return newFakeRun(time.Second, supervisor.Exit{Kind: supervisor.Failure, Err: errFailed}), nil
			})}
		r.fire(t)
		time.Sleep(1500 * time.Millisecond)
		if err := other.fire(context.Background(), func() {}); err != nil { // while the first is in a sleep
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		s, err := other.state()
		if err != nil || len(r.begun) != 3 || runs != 5 || r.state(t) != supervisor.GivenUp || s != supervisor.GivenUp {
			t.Errorf("%d and %d runs, expected 3 and 5; %v, %v, %v", len(r.begun), runs, r.state(t), s, err)
		}
	})
}

func TestAStopInALongSleepIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, aidefile.Kept(), script("-"))
		r.fire(t)
		time.Sleep(11*time.Second + 511*time.Second + time.Second) // in the sleep of 300 s
		synctest.Wait()
		if info, err := r.Supervisor.Child(r.ID); err != nil || info.State != supervisor.Restarting || time.Until(info.NextAt) < 4*time.Minute {
			t.Fatalf("not in the sleep of 5 minutes: %+v, %v", info, err)
		}
		before := time.Now()
		r.end()
		if d := time.Since(before); d != 0 {
			t.Errorf("the end took %v", d)
		}
	})
}

func TestNothingElseBeginsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, policy(supervisor.Permanent, 10, supervisor.Fixed), script("-"))
		defer r.end()
		ctx := context.Background()
		// A supervisor that restarts all of its children does this.
		if _, err := r.Supervisor.RestartChild(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		if s := r.state(t); len(r.begun) != 0 || s != supervisor.Stopped {
			t.Errorf("%d runs, state %v", len(r.begun), s)
		}
		r.fire(t)
		if err := r.Supervisor.SuspendChild(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		if err := r.fire(t); !errors.Is(err, ErrSkipped) {
			t.Errorf("a firing of what was stopped by hand: %v", err)
		}
		if _, err := r.Supervisor.RestartChild(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(r.begun) != 1 {
			t.Errorf("%d runs, expected that of the firing", len(r.begun))
		}
	})
}

// model is a simple implementation of the policy: it decides what follows a run.
type model struct {
	policy  aidefile.Policy
	count   int // consecutive restarts
	attempt int
}

func (m *model) ended(success bool) (sleep time.Duration, again bool, gaveUp bool) {
	if success {
		m.count, m.attempt = 0, 0
	}
	if m.policy.Restart == supervisor.Temporary || m.policy.Restart == supervisor.Transient && success {
		return 0, false, false
	}
	if m.count >= m.policy.MaxRestarts {
		return 0, false, true
	}
	n := m.attempt
	switch m.policy.Backoff {
	case supervisor.Linear:
		sleep = time.Duration(n+1) * time.Second
	case supervisor.Exponential:
		sleep = time.Second << min(n, 20)
	default:
		sleep = time.Second
	}
	if !success {
		m.count, m.attempt = m.count+1, n+1
	}
	return min(sleep, 300*time.Second), true, false
}

// The tree follows the model for random policies, exits and firings.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := policy(
			rapid.SampledFrom([]supervisor.Restart{supervisor.Permanent, supervisor.Transient, supervisor.Temporary}).Draw(rt, "restart"),
			rapid.IntRange(0, 12).Draw(rt, "max"),
			rapid.SampledFrom([]supervisor.BackoffKind{supervisor.Exponential, supervisor.Linear, supervisor.Fixed}).Draw(rt, "backoff"))
		ends := rapid.SliceOfN(rapid.Bool(), 80, 80).Draw(rt, "ends")
		fires := rapid.SliceOfN(rapid.IntRange(0, 900), 1, 12).Draw(rt, "fires") // seconds between them
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t, p, func(n int) *fakeRun {
				if ends[n%len(ends)] {
					return newFakeRun(time.Second, supervisor.Exit{Kind: supervisor.Normal})
				}
				return newFakeRun(time.Second, supervisor.Exit{Kind: supervisor.Failure, Err: errFailed})
			})
			defer r.end()
			begin := time.Now()
			m := model{policy: p}
			var expected []time.Duration
			next := time.Duration(-1) // of a chain
			advance := func(until time.Duration) {
				for next >= 0 && next <= until {
					expected = append(expected, next)
					success := ends[(len(expected)-1)%len(ends)]
					sleep, again, _ := m.ended(success)
					if !again {
						next = -1
						// The run lasts until the next firing, which is never within it; see below.
						continue
					}
					next += time.Second + sleep
				}
			}
			at := 500 * time.Millisecond // never at the very moment of anything else
			time.Sleep(at)
			for _, gap := range fires {
				gap := time.Duration(gap) * time.Second
				busy := next >= 0 || len(expected) > 0 && at < expected[len(expected)-1]+time.Second
				err := r.fire(t)
				if skipped := errors.Is(err, ErrSkipped); skipped != busy {
					t.Fatalf("firing at %v: %v, expected it to be skipped: %v", at, err, busy)
				}
				if !busy {
					next = at
				}
				at += gap + 300*time.Millisecond
				advance(at)
				time.Sleep(gap + 300*time.Millisecond)
				synctest.Wait()
			}
			var got []time.Duration
			for _, b := range r.begun {
				got = append(got, b.Sub(begin))
			}
			if !slices.Equal(got, expected) {
				t.Fatalf("%v: runs at %v,\nexpected %v", p, got, expected)
			}
		})
	})
}

// everyFive is "*/5 * * * *".
type every time.Duration

func (e every) Next(t time.Time) time.Time { return t.Truncate(time.Duration(e)).Add(time.Duration(e)) }
func (e every) String() string             { return fmt.Sprint(time.Duration(e)) }

// A schedule starts a monitor with the policy always, which then runs all day, whatever its schedule
// does.
func TestADay(t *testing.T) {
	const run = 20 * time.Second
	for _, c := range []struct {
		name    string
		restart supervisor.Restart
		outage  [2]time.Duration // from the begin of the day; runs that begin then fail
		max     int
	}{
		{"always", supervisor.Permanent, [2]time.Duration{}, 100},
		{"always, with an outage of two hours", supervisor.Permanent, [2]time.Duration{8 * time.Hour, 10 * time.Hour}, 100},
		{"always, with an outage that is too much", supervisor.Permanent, [2]time.Duration{8 * time.Hour, 20 * time.Hour}, 10},
		{"on-failure", supervisor.Transient, [2]time.Duration{8 * time.Hour, 10 * time.Hour}, 100},
		{"never", supervisor.Temporary, [2]time.Duration{8 * time.Hour, 10 * time.Hour}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				midnight := time.Now()
				fails := func(at time.Duration) bool { return at >= c.outage[0] && at < c.outage[1] }
				p := policy(c.restart, c.max, supervisor.Exponential)
				r := newHarness(t, p, nil)
				r.next = func(int) *fakeRun {
					if fails(time.Since(midnight)) {
						return newFakeRun(run, supervisor.Exit{Kind: supervisor.Failure, Err: errFailed})
					}
					return newFakeRun(run, supervisor.Exit{Kind: supervisor.Normal})
				}
				ctx, cancel := context.WithCancel(context.Background())
				fired, skipped := 0, 0
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					watchSchedules(ctx, []aidefile.Schedule{every(5 * time.Minute)}, func(aidefile.Due) {
						if r.fire(t) == nil {
							fired++
						} else {
							skipped++
						}
					})
				}()
				time.Sleep(24*time.Hour - time.Second)
				cancel()
				<-ended
				r.end()

				// The expected course of the day.
				var expected []time.Duration
				m := model{policy: p}
				free := time.Duration(0)
				runs := 0
				for at := 5 * time.Minute; at < 24*time.Hour; at += 5 * time.Minute {
					if at < free {
						continue
					}
					runs++
					for next := at; ; {
						if next >= 24*time.Hour-time.Second {
							free = 24 * time.Hour
							break
						}
						expected = append(expected, next)
						sleep, again, _ := m.ended(!fails(next))
						free = next + run
						if !again {
							break
						}
						next += run + sleep
					}
				}
				var got []time.Duration
				for _, b := range r.begun {
					got = append(got, b.Sub(midnight))
				}
				if !slices.Equal(got, expected) {
					t.Errorf("%d runs, expected %d", len(got), len(expected))
					for i := range min(len(got), len(expected)) {
						if got[i] != expected[i] {
							t.Fatalf("run %d at %v, expected %v", i, got[i], expected[i])
						}
					}
				}
				if fired != runs || fired+skipped != 287 {
					t.Errorf("%d firings were runs and %d were skipped, expected %d and %d", fired, skipped, runs, 287-runs)
				}
				t.Logf("%d runs, %d of %d firings skipped", len(got), skipped, fired+skipped)
			})
		})
	}
}

func TestPollBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		begin := time.Now()
		var at []float64
		go poll(ctx, time.Minute, 10*time.Minute, func(context.Context) error {
			at = append(at, time.Since(begin).Minutes())
			if len(at) > 2 && len(at) < 9 {
				return errFailed
			}
			return nil
		})
		time.Sleep(2 * time.Hour)
		cancel()
		synctest.Wait()
		if expected := []float64{0, 1, 2, 4, 8, 16, 26, 36, 46, 47, 48}; !slices.Equal(at[:len(expected)], expected) {
			t.Errorf("asked at %v, expected %v", at, expected)
		}
	})
}

// A run that a trigger has started while its quota is closed begins when the quota lets it, and no other start can use
// its gate.
func TestFiredRunWaits(t *testing.T) {
	for _, policy := range []aidefile.Policy{aidefile.Single(), aidefile.Kept()} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t, policy, script("+"))
			defer r.end()
			opens := time.Now().Add(2 * time.Hour)
			r.refuse = func() error {
				if time.Now().Before(opens) {
					return &supervisor.RetryError{At: opens, Err: errFailed}
				}
				return nil
			}
			if err := r.Target.fire(t.Context(), func() {}); !waits(err) {
				t.Fatalf("the answer of a trigger: %v", err)
			}
			if err := r.fire(t); !errors.Is(err, ErrSkipped) {
				t.Errorf("a second trigger while it waits: %v", err)
			}
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if len(r.begun) != 1 || !r.begun[0].Equal(opens) {
				t.Errorf("runs began at %v, expected one at %v", r.begun, opens)
			}
			if p, err := r.spec.Start(t.Context()); !errors.Is(err, supervisor.ErrIgnore) {
				t.Errorf("the gate stays open: %v, %v", p, err)
			}
		})
	}
}
