package order

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// tellRun logs the events of a run: it begins, requests an action, and ends.
func (s *sim) tellRun(name string, made event.Type) {
	n := len(s.led[name])
	run := fmt.Sprint("r-", n)
	about := func(t event.Type) event.Event {
		return event.Event{Type: t, Path: PathOf(name)}.With(map[string]any{"order": name, "run": run, "causes": s.led[name][n-1]})
	}
	s.tell(about(event.OrderFired))
	s.tell(event.Event{Type: made, Actor: PathOf(name)})
	s.tell(about(event.OrderCompleted))
	s.step()
}

// Orders that fire each other in a circle do so only once.
func TestOrdersThatFireEachOther(t *testing.T) {
	s := start(t, order("a", on("x", "z")), order("b", on("y")), order("c", on("y")), order("d", on("order.completed")))
	s.event("x") // by somebody else
	s.want(t, "a []")
	s.tellRun("a", "y")
	s.want(t, "b [a]", "c [a]", "d [a]")
	s.tellRun("b", "z") // would fire a, which has led to it
	s.want(t, "d [a b]")
	s.tellRun("c", "x")
	s.want(t, "d [a c]")
	s.tellRun("d", "w") // its own end does not fire it
	s.want(t)
	s.event("z")
	s.want(t, "a []") // of which nothing before is a cause

	// An order that requests a run of another one is a cause of that run, too.
	s.tellRun("a", "y")
	s.want(t, "b [a]", "c [a]", "d [a]")
	if _, err := s.e.Ask("a", PathOf("b"), nil, s.now); err == nil {
		t.Error("b can run a, which has led to it")
	}
	if _, err := s.e.Ask("d", PathOf("b"), nil, s.now); err != nil {
		t.Error(err)
	}
	s.step()
	s.want(t, "d [a b]")
	s.e.Ask("a", "user", nil, s.now) // a person can
	s.step()
	s.want(t, "a []")
}

// The causes of runs are known after a restart.
func TestCausesOutliveTheDaemon(t *testing.T) {
	s := start(t, order("a", on("x")), order("b", on("y")))
	s.event("x")
	s.tellRun("a", "y")
	s.want(t, "a []", "b [a]")
	s.open()
	s.e.Led("b", "r-1", false, []string{"a"})
	s.tell(event.Event{Type: "x", Actor: PathOf("b")})
	s.step()
	s.want(t)
}

// Effects that the log does not show as such fire an order endlessly, but no faster than its pace. An
// example is an agent that works on the tasks of an order.
func TestPace(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := start(t, order("a", on("x")))
		for range 3 * 3600 {
			s.event("x")
			s.pass(time.Second)
			if restarts && s.seq%1000 == 0 {
				s.restart(0)
			}
		}
		if n := len(s.fired); n < eventBurst+178 || n > eventBurst+181 {
			t.Errorf("%d runs in three hours, want %d and one a minute; restarts: %v", n, eventBurst, restarts)
		}
		handed := 0
		for _, b := range s.given["a"] {
			handed += b.Count
		}
		s.run(time.Minute)
		if handed += s.given["a"][len(s.given["a"])-1].Count; handed != int(s.seq) {
			t.Errorf("%d events were handed over, of %d", handed, s.seq)
		}
		if s.slow != 1 {
			t.Errorf("it was told %d times", s.slow)
		}
		s.run(2 * time.Hour) // it rests
		for range 2 * eventBurst {
			s.event("x")
			s.pass(time.Second)
		}
		if s.slow != 2 {
			t.Errorf("told %d times after a rest", s.slow)
		}
	}
}

func (s *sim) want(t *testing.T, fired ...string) {
	t.Helper()
	if slices.Sort(s.causes); !slices.Equal(s.causes, fired) {
		t.Errorf("fired %q, want %q", s.causes, fired)
	}
	s.causes = nil
}
