package supervisor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

// A child's context is written out by hand; it must be a context like others.
func TestContext(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"it ends when the child is asked to stop": func(t *testing.T, w *world) {
			var seen string
			base := context.WithValue(context.Background(), key{}, "value")
			s, err := Start(base, Spec{Name: "app", Children: []ChildSpec{{ID: "a", Run: func(ctx context.Context) error {
				_, deadline := ctx.Deadline()
				self, ok := SelfOf(context.WithoutCancel(ctx))
				seen = fmt.Sprint(ctx.Err(), deadline, ctx.Value(key{}), self, ok, ctx)
				done := ctx.Done()
				<-done
				seen += fmt.Sprint(" ", ctx.Err(), done == ctx.Done())
				return ctx.Err()
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			s.Stop()
			<-s.Done()
			if seen != "<nil> falsevalue{app/a a 1 <nil>} true app/a context canceled true" {
				t.Error(seen)
			}
		},
		"contexts derived from it end with it": func(t *testing.T, w *world) {
			var derived, timed, late context.Context
			var ran, stopped, after atomic.Int32
			run := func(ctx context.Context) error {
				var cancel context.CancelFunc
				derived, cancel = context.WithCancel(ctx)
				defer cancel()
				timed, cancel = context.WithTimeout(ctx, time.Hour)
				defer cancel()
				context.AfterFunc(ctx, func() { ran.Add(1) })
				for range 3 { // first, middle and last of the list
					if stop := context.AfterFunc(ctx, func() { stopped.Add(1) }); !stop() || stop() {
						t.Error("stop says that it did not")
					}
					context.AfterFunc(ctx, func() { ran.Add(1) })
				}
				<-ctx.Done()
				context.AfterFunc(ctx, func() { after.Add(1) })
				var end context.CancelFunc
				late, end = context.WithCancel(ctx)
				defer end()
				time.Sleep(time.Second)
				return ctx.Err()
			}
			w.up(Spec{Children: []ChildSpec{{ID: "a", Run: run}}})
			if derived.Err() != nil || timed.Err() != nil {
				t.Error("ended too early")
			}
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			if derived.Err() != context.Canceled || timed.Err() != context.Canceled || late.Err() != context.Canceled {
				t.Error(derived.Err(), timed.Err(), late.Err())
			}
			if ran.Load() != 4 || stopped.Load() != 0 || after.Load() != 1 {
				t.Errorf("%d ran, %d after stop, %d after the end", ran.Load(), stopped.Load(), after.Load())
			}
		},
		"and also when the child ends by itself": func(t *testing.T, w *world) {
			var derived context.Context
			w.up(Spec{Children: []ChildSpec{{ID: "a", Restart: Temporary, Run: func(ctx context.Context) error {
				derived = context.WithValue(ctx, key{}, "derived")
				return nil
			}}}})
			if derived.Err() == nil {
				t.Error("still going on")
			}
		},
		"who is not a child": func(t *testing.T, w *world) {
			if _, ok := SelfOf(context.Background()); ok {
				t.Error("is one")
			}
			Ready(context.Background())
		},
	})
}

func TestProcesses(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"its exit is what it says": func(t *testing.T, w *world) {
			var all []*fake
			w.up(Spec{Children: []ChildSpec{{ID: "a", Restart: Transient, Start: func(context.Context) (Process, error) {
				all = append(all, newFake())
				return all[len(all)-1], nil
			}}}})
			for n, exit := range []Exit{boom, {Kind: Killed, Err: ErrKilled}, {Kind: Lost}} {
				all[n].end(exit)
				synctest.Wait()
				if i, _ := w.Child("a"); i.LastExit != exit || i.State != Running {
					t.Errorf("%+v", i)
				}
			}
			all[3].end(fine)
			w.wantList("a stopped")
		},
		"it comes just after it was to be killed": func(t *testing.T, w *world) {
			p := newFake()
			w.up(Spec{})
			go w.StartChild(w.call(), ChildSpec{ID: "a", Shutdown: BrutalKill, Start: func(context.Context) (Process, error) {
				time.Sleep(brutalGrace / 2)
				return p, nil
			}})
			synctest.Wait()
			start := time.Now()
			w.fail("terminate", w.TerminateChild(w.call(), "a"), nil)
			if d := time.Since(start); d != brutalGrace/2 || p.signals() != "0 stops, 1 kills" {
				t.Errorf("after %v: %s", d, p.signals())
			}
		},
		"a second terminate waits for the end, too": func(t *testing.T, w *world) {
			p := newFake()
			p.onStop = func(p *fake) { time.Sleep(time.Second); p.end(asked) }
			w.up(Spec{Children: []ChildSpec{{ID: "a", Start: func(context.Context) (Process, error) { return p, nil }}}})
			start := time.Now()
			go w.TerminateChild(w.call(), "a")
			synctest.Wait()
			w.fail("again", w.TerminateChild(w.call(), "a"), nil)
			if d := time.Since(start); d != time.Second {
				t.Errorf("after %v", d)
			}
			if s := p.signals(); s != "1 stops, 0 kills" {
				t.Error(s)
			}
		},
	})
}

// Every row of the limit says when it is reached and when it is lifted.
func TestLimitEvents(t *testing.T) {
	for name, row := range map[string]struct {
		limit Limit
		lift  func(*rig)
		want  string
	}{
		"escalate":   {Escalating(0, time.Hour), func(*rig) {}, "[reached escalate]"},
		"quarantine": {Quarantining(1, time.Hour), func(r *rig) { r.advance(2 * time.Hour) }, "[reached quarantine lifted limit reached, quarantined until the window has room]"},
		"give up":    {GivingUp(0), func(r *rig) { r.reset("a") }, "[reached give_up lifted reset]"},
		"pause":      {Pausing(1, time.Hour), func(r *rig) { r.resume() }, "[reached pause lifted asked for by hand lifted limit reached, paused until resumed]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, limited(one("a"), row.limit))
			r.crash("a")
			row.lift(r)
			var got []string
			for _, e := range r.seen {
				switch e := e.(type) {
				case LimitReached:
					got = append(got, "reached "+e.Limit.OnLimit.String())
				case LimitLifted:
					got = append(got, "lifted "+e.Reason.String())
				}
			}
			if fmt.Sprint(got) != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
