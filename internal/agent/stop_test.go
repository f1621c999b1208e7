package agent

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// waiting is the order of an agent whose turn comes after some time.
type waiting struct{ after, within time.Duration }

func (q waiting) Await(ctx context.Context) (time.Duration, bool) {
	select {
	case <-time.After(q.after):
	case <-ctx.Done():
	}
	return q.within, true
}
func (q waiting) Bound() time.Duration { return time.Hour }

// An agent that is stopped with others ends when it is its turn, and rests before.
func TestStopInTurn(t *testing.T) {
	for _, c := range []struct {
		name string
		turn waiting
		do   func(*Process, *played)
		took time.Duration
		got  []string
	}{
		{"asked", waiting{time.Second, time.Minute}, nil, 4 * time.Second, []string{"stop"}},
		{"without time", waiting{time.Second, 0}, nil, time.Second, []string{"kill"}},
		{"killed while it waits", waiting{time.Hour, time.Minute}, func(p *Process, _ *played) { p.Kill() }, 0, []string{"kill"}},
		{"ends while it waits", waiting{time.Hour, time.Minute}, func(_ *Process, s *played) {
			s.told("crash", true, supervisor.Exit{Kind: supervisor.Failure, Err: errUnhealthy})
		}, 0, []string{"crash"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, begun := newPlayed(true), time.Now()
				p := newProcess(s, never, time.Second, lifecycleHooks{beforeStop: func(ctx context.Context) {
					select {
					case <-time.After(3 * time.Second):
					case <-ctx.Done():
					}
				}}, c.turn)
				if p.StopTimeout() != time.Hour {
					t.Errorf("its supervisor waits for %v", p.StopTimeout())
				}
				ended := waitFor(p)
				go p.Stop()
				synctest.Wait()
				s.mu.Lock()
				if len(s.got) > 0 {
					t.Errorf("before its turn it was told %q", s.got)
				}
				s.mu.Unlock()
				if c.do != nil {
					c.do(p, s)
				}
				<-ended
				if took := time.Since(begun); took != c.took || !slices.Equal(s.got, c.got) {
					t.Errorf("after %v: told %q, want %v: %q", took, s.got, c.took, c.got)
				}
			})
		})
	}
}

// An agent that waits for its turn is let go when the controller is to keep its agents.
func TestStopInTurnAndKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keep atomic.Bool
		s := newPlayed(true)
		p := newProcess(s, keep.Load, time.Second, lifecycleHooks{}, waiting{time.Minute, time.Minute})
		ended := waitFor(p)
		go p.Stop()
		time.Sleep(time.Second)
		keep.Store(true)
		<-ended
		if s.mu.Lock(); len(s.got) > 0 {
			t.Errorf("it was told %q", s.got)
		}
		s.mu.Unlock()
	})
}

// An agent whose shim was quicker to kill it than the daemon has not ended in
// time, either. How late the daemon hears of an end is not the agent's fault.
func TestOverdue(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 0, 59 * time.Second: 0, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newPlayed(took == 0)
			p := newProcess(s, never, time.Second, lifecycleHooks{}, waiting{0, time.Minute})
			if p.Overdue(0) != 0 {
				t.Error("it was not asked")
			}
			ended := waitFor(p)
			p.Stop()
			time.Sleep(took)
			s.Kill()
			<-ended
			time.Sleep(time.Hour)
			if waited := p.Overdue(time.Minute); waited != want || p.Overdue(0) == want && want > 0 {
				t.Errorf("ended after %v: overdue %v, want %v once", took, waited, want)
			}
			if pid := p.pidWhenAsked(); took > 0 && pid != playedPID {
				t.Errorf("ended after %v: the process was %d, expected %d", took, pid, playedPID)
			}
		})
	}
}
