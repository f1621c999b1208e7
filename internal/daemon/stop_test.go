package daemon

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Whoever departs has ended for those who stop the fleet, and for its
// supervisor when that asks.
func TestDepart(t *testing.T) {
	for _, c := range []struct {
		name    string
		within  time.Duration
		release func(*process)
		got     []string
	}{
		{"stopped", time.Minute, (*process).Stop, []string{"stop"}},
		{"killed by its supervisor", time.Minute, (*process).Kill, []string{"stop", "kill"}},
		{"without time", 0, (*process).Kill, []string{"kill", "kill"}},
		{"nobody asks", time.Minute, (*process).release, []string{"stop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPlayed(true)
				p := newProcess(s, never, time.Second, turns{})
				p.heed(time.Hour)
				p.depart(c.within)
				synctest.Wait()
				if !isClosed(p.gone) || isClosed(p.Done()) {
					t.Errorf("gone: %v, told: %v", isClosed(p.gone), isClosed(p.Done()))
				}
				c.release(p)
				<-p.Done()
				if !slices.Equal(s.got, c.got) {
					t.Errorf("it was told %q, want %q", s.got, c.got)
				}
			})
		})
	}
}

// One whose supervisor was faster waits for its turn, and has more time.
func TestDepartLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlayed(true)
		p := newProcess(s, never, time.Second, turns{})
		if p.Patience() != 0 {
			t.Error("it has more patience than its supervisor")
		}
		p.heed(time.Hour)
		p.Stop()
		synctest.Wait()
		if p.Patience() != time.Hour || len(s.got) > 0 {
			t.Errorf("patience %v, told %q", p.Patience(), s.got)
		}
		p.depart(time.Minute)
		<-p.Done()
		if p.Exit().Kind != supervisor.ShutDown || !slices.Equal(s.got, []string{"stop"}) {
			t.Errorf("%v, told %q", p.Exit(), s.got)
		}
	})
}

// An agent that rests before it is stopped does so once.
func TestDepartRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlayed(true)
		rests := 0
		p := newProcess(s, never, time.Second, turns{rest: func(ctx context.Context) {
			rests++
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
		}})
		begin := time.Now()
		p.heed(time.Hour)
		p.depart(time.Minute)
		p.Stop()
		<-p.Done()
		if rests != 1 || time.Since(begin) != 3*time.Second || !slices.Equal(s.got, []string{"stop"}) {
			t.Errorf("rested %d times, %v: %q", rests, time.Since(begin), s.got)
		}
	})
}

// An agent whose shim was quicker to kill it than the daemon has not ended in
// time, either. How late the daemon hears of an end is not the agent's fault.
func TestOverdue(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 0, 59 * time.Second: 0, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newPlayed(took == 0)
			p := newProcess(s, never, time.Second, turns{})
			if p.overdue(0) != 0 {
				t.Error("it was not asked")
			}
			p.depart(time.Minute)
			time.Sleep(took)
			s.Kill()
			synctest.Wait()
			time.Sleep(time.Hour)
			if waited := p.overdue(time.Minute); waited != want || p.overdue(0) == want && want > 0 {
				t.Errorf("ended after %v: overdue %v, want %v once", took, waited, want)
			}
			p.release()
			<-p.Done()
		})
	}
}

// What has been told to its supervisor is not taken back.
func TestDepartTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlayed(true)
		p := newProcess(s, never, time.Second, turns{})
		s.Kill()
		<-p.Done()
		p.depart(time.Minute)
		s = newPlayed(false)
		p = newProcess(s, never, time.Second, turns{})
		p.Stop()
		p.depart(time.Minute)
		s.Kill()
		<-p.Done()
	})
}

// come is a start that a test plays.
func come(a *arrivals, ctx context.Context, path string, start func(context.Context) (supervisor.Process, error)) (result chan error) {
	result = make(chan error, 1)
	go func() {
		_, err := a.start(ctx, path, start)
		result <- err
	}()
	return result
}

func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		s := newPlayed(true)
		p := newProcess(s, never, time.Second, turns{})
		lives := func(context.Context) (supervisor.Process, error) { return p, nil }
		if err := <-come(a, t.Context(), "p/s/a", lives); err != nil {
			t.Fatal(err)
		}
		ctx, unwanted := context.WithCancel(t.Context())
		slow := func(ctx context.Context) (supervisor.Process, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil, context.Cause(ctx)
		}
		cut, wanted := come(a, ctx, "p/s/b", slow), come(a, t.Context(), "p/s/c", slow)
		other := come(a, ctx, "p/sb", slow)
		synctest.Wait()

		var came []string
		g, living, coming := a.close("p/s", func(path string, _ *process) { came = append(came, path) })
		if len(living) != 1 || living["p/s/a"] != p || len(coming) != 2 {
			t.Fatalf("behind the gate: %v, %v", living, coming)
		}
		for _, way := range coming {
			<-way.over
		}
		synctest.Wait()
		late := come(a, t.Context(), "p/s/d", lives)
		synctest.Wait()
		for name, result := range map[string]chan error{"b": cut, "c": wanted, "d": late, "sb": other} {
			select {
			case err := <-result:
				t.Errorf("%s: %v, want it to wait", name, err)
			default:
			}
		}
		unwanted()
		if err := <-cut; !errors.Is(err, context.Canceled) {
			t.Errorf("who is not wanted any more: %v", err)
		}
		if err := <-other; !errors.Is(err, context.Canceled) {
			t.Errorf("whoever is elsewhere: %v", err)
		}
		a.reopen(g)
		if err := <-wanted; !errors.Is(err, errGateClosed) {
			t.Errorf("who was sent away and is wanted again: %v", err)
		}
		if err := <-late; err != nil || a.empty() || came != nil {
			t.Errorf("who has waited: %v, %v", err, came)
		}
		s.Kill()
		<-p.gone
		if !a.empty() {
			t.Error("somebody is left")
		}
	})
}

// A start that was too far to be given up is told to leave.
func TestArrivalTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		s := newPlayed(true)
		p := newProcess(s, never, time.Second, turns{})
		proceed := make(chan struct{})
		done := come(a, t.Context(), "p/a", func(context.Context) (supervisor.Process, error) {
			<-proceed
			return p, nil
		})
		synctest.Wait()
		_, _, coming := a.close("p", func(_ string, p *process) { p.depart(time.Second) })
		close(proceed)
		<-coming[0].over
		<-p.gone
		if err := <-done; err != nil || isClosed(p.Done()) {
			t.Errorf("%v, told: %v", err, isClosed(p.Done()))
		}
		p.release()
		<-p.Done()
	})
}
