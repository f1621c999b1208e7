package supervisor

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvents(t *testing.T) {
	cases(t, map[string]func(*testing.T, *world){
		"a hook that blocks for ever blocks only itself": func(t *testing.T, w *world) {
			free := make(chan struct{})
			spec := w.tree(OneForOne, "a")
			spec.Limit.Max = Unlimited
			spec.OnEvent = func(Event) { <-free }
			w.up(spec)
			for range 100 {
				w.crash("a")
			}
			w.wantList("a running")
			w.Stop()
			<-w.Done()
			close(free)
			if err := w.Wait(); err != nil {
				t.Error(err)
			}
		},
		"a slow hook is told how many it has lost": func(t *testing.T, w *world) {
			free := make(chan struct{})
			var got, lost int
			var last Event
			const crashes = MaxQueuedEvents
			var n atomic.Int64
			s, err := Start(context.Background(), Spec{
				Limit: Limit{Max: Unlimited},
				OnEvent: func(e Event) {
					<-free
					last = e
					if e, ok := e.(EventsLost); ok {
						lost += e.N
						return
					}
					got++
				},
				Children: []ChildSpec{{ID: "a", Run: func(ctx context.Context) error {
					if n.Add(1) <= crashes {
						return errBoom
					}
					<-ctx.Done()
					return nil
				}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			close(free)
			s.Stop()
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
			// up, each incarnation's start and end, and how the supervisor ended
			if all := 1 + 2*crashes + 1 + 4; got+lost != all || lost == 0 {
				t.Errorf("%d seen and %d lost of %d", got, lost, all)
			}
			_ = last
		},
		"in order, with all that is known": func(t *testing.T, w *world) {
			spec := w.tree(OneForAll, "a", "b")
			spec.Name = "app"
			w.up(spec)
			w.pass(time.Minute)
			w.crash("a")
			w.Stop()
			<-w.Done()
			var lines []string
			for _, e := range w.seen() {
				lines = append(lines, e.String())
			}
			want := `app/a started
app/b started
app started
app/a ended after 1m0s: boom; restart: it always restarts
app/b stopping: a sibling failed and the strategy restarts both
app/b stopped: shutdown (a sibling failed and the strategy restarts both)
app/a restarted, incarnation 2
app/b restarted, incarnation 2
app stopping: the supervisor is shutting down
app/b stopping: the supervisor is shutting down
app/b stopped: shutdown (the supervisor is shutting down)
app/a stopping: the supervisor is shutting down
app/a stopped: shutdown (the supervisor is shutting down)
app ended: shutdown`
			if got := strings.Join(lines, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			var at time.Time
			for _, e := range w.seen() {
				if e.Header().Time.Before(at) {
					t.Errorf("%v is out of order", e)
				}
				at = e.Header().Time
			}
		},
		"nested supervisors use the hook of their parent, or their own": func(t *testing.T, w *world) {
			var own []string
			inner, other := w.tree(OneForOne, "a"), w.tree(OneForOne, "b")
			other.OnEvent = func(e Event) { own = append(own, e.Header().Path()) }
			w.up(Spec{Children: []ChildSpec{{ID: "s", Supervisor: &inner}, {ID: "t", Supervisor: &other}}})
			w.want("+s/a +s +s +t +root")
			w.Stop()
			<-w.Done()
			synctest.Wait()
			if got := fmt.Sprint(own); got != "[root/t/b root/t root/t root/t/b root/t/b root/t]" {
				t.Error(got)
			}
		},
		"a hook may call the supervisor": func(t *testing.T, w *world) {
			var n Counts
			spec := w.tree(OneForOne, "a")
			spec.OnEvent = func(e Event) {
				if e, ok := e.(ChildExited); ok {
					n, _ = w.Count()
					w.TerminateChild(context.Background(), e.ID)
				}
			}
			w.up(spec)
			w.crash("a")
			w.wantList("a stopped")
			if n.Specs != 1 {
				t.Errorf("%+v", n)
			}
		},
		"every event has a text": func(t *testing.T, w *world) {
			for _, e := range []Event{
				SupervisorStarted{}, SupervisorStopping{}, SupervisorStopping{Err: errBoom}, SupervisorEnded{}, ChildStarted{}, ChildStartFailed{},
				ChildIgnored{}, ChildExited{}, ChildStopping{}, ChildStopped{}, ChildChanged{}, ChildAbandoned{}, ChildReturned{}, LimitReached{},
				LimitReached{Until: time.Now()}, LimitLifted{}, EventsLost{N: 3},
			} {
				if e.String() == "" {
					t.Errorf("%T has none", e)
				}
			}
		},
	})
}

// The hook's queue never grows beyond its bound, and its gap is one.
func TestHookIsBounded(t *testing.T) {
	h := &hook{wake: make(chan struct{}, 1)}
	many := make([]Event, MaxQueuedEvents+1)
	for i := range many {
		many[i] = ChildIgnored{}
	}
	h.put(many)
	h.put(many[:5])
	if len(h.queue) != MaxQueuedEvents || h.lost != 6 {
		t.Errorf("%d queued, %d lost", len(h.queue), h.lost)
	}
	h.queue = nil
	h.put(many[1:])
	h.put(many[:1])
	if e, ok := h.queue[0].(EventsLost); !ok || e.N != 6 {
		t.Errorf("first is %v", h.queue[0])
	}
	if len(h.queue) > MaxQueuedEvents+1 {
		t.Errorf("%d queued", len(h.queue))
	}
}

// Words for files, flags and traces.
func TestNames(t *testing.T) {
	for _, s := range []Strategy{OneForOne, OneForAll, RestForOne, SimpleOneForOne} {
		if got, err := ParseStrategy(s.String()); got != s || err != nil {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	for _, r := range []Restart{Permanent, Transient, Temporary} {
		if got, err := ParseRestart(r.String()); got != r || err != nil {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	for _, k := range []BackoffKind{NoBackoff, Fixed, Linear, Exponential} {
		if got, err := ParseBackoffKind(k.String()); got != k || err != nil {
			t.Errorf("%v: %v, %v", k, got, err)
		}
	}
	for _, x := range []LimitAction{Escalate, Quarantine, GiveUp, Pause} {
		if got, err := ParseLimitAction(x.String()); got != x || err != nil {
			t.Errorf("%v: %v, %v", x, got, err)
		}
	}
	if _, err := ParseStrategy("one-for-none"); err == nil || !strings.Contains(err.Error(), "rest_for_one") {
		t.Errorf("the error does not say what is expected: %v", err)
	}
	for r := NoReason + 1; r <= ReasonReset; r++ {
		if s := r.String(); s == "" || strings.HasPrefix(s, "invalid") {
			t.Errorf("reason %d: %q", uint8(r), s)
		}
	}
	if s := Strategy(99).String(); s != "invalid(99)" {
		t.Error(s)
	}
}

// TestBuffered: a slow consumer holds up neither the caller nor, once drained, its last events.
func TestBuffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, lost, release := 0, 0, make(chan struct{})
		hook, drain := Buffered(func(e Event) {
			<-release
			if gap, is := e.(EventsLost); is {
				lost += gap.N
				return
			}
			seen++
		})
		hook(SupervisorStarted{})
		synctest.Wait() // f has the first one
		for range MaxQueuedEvents + 3 {
			hook(SupervisorStarted{})
		}
		close(release)
		drain()
		if seen != MaxQueuedEvents+1 || lost != 3 {
			t.Errorf("%d events seen and %d reported as lost", seen, lost)
		}
	})
}
