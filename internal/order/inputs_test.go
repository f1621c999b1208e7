package order

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

func TestManual(t *testing.T) {
	o := order("a")
	s := start(t, o, order("b", Gate{Kind: Manual}))
	s.run(100 * time.Hour)
	s.wantFired()
	s.length = time.Hour
	if queued, err := s.e.Ask("a", "user", nil, s.now); queued || err != nil {
		t.Error(queued, err)
	}
	s.step()
	if _, err := s.e.Ask("a", "user", nil, s.now); err != ErrRunning {
		t.Error(err)
	}
	o.Overlap = Queue
	if queued, err := s.e.Ask("a", "user", nil, s.now); !queued || err != nil {
		t.Error(queued, err)
	}
	s.step()
	s.restart(time.Second)
	s.run(3 * time.Hour)
	if len(s.fired) != 2 || s.most != 1 {
		t.Error(s.fired)
	}
	if _, err := s.e.Ask("c", "user", nil, s.now); err != ErrUnknown {
		t.Error(err)
	}
	s.e.Suspend(true)
	if _, err := s.e.Ask("a", "user", nil, s.now); !errors.Is(err, ErrSuspended) {
		t.Error(err)
	}
}

func TestDisabled(t *testing.T) {
	o := order("a", at(t, "0 * * * *"), on("x"))
	o.Disabled, o.Why = true, "enabled is false"
	s := start(t, o)
	s.run(3 * time.Hour)
	s.event("x")
	s.wantFired()
	if v, _ := s.e.Look("a", s.now, nil); v.Due || v.Why != "enabled is false" {
		t.Errorf("%+v", v)
	}
	if err := s.e.Enable("a", true, s.now); err != nil {
		t.Error(err)
	}
	s.step()
	s.wantFired() // what has passed does not count
	s.restart(0)
	s.run(time.Hour)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.e.Enable("a", false, s.now)
	s.event("x")
	s.restart(time.Hour)
	s.run(time.Hour)
	if len(s.fired) != 1 || len(s.drops) != 0 {
		t.Error(s.fired, s.drops)
	}
	if err := s.e.Enable("unknown", true, s.now); err != ErrUnknown {
		t.Error(err)
	}
}

func TestSuspended(t *testing.T) {
	s := start(t, order("cron", at(t, "* * * * *")), order("event", on("x")), order("cooldown", every(time.Minute)))
	n := len(s.fired)
	s.e.Suspend(true)
	s.run(time.Hour)
	s.event("x", "x")
	if len(s.fired) != n || len(s.drops) != 1 || s.drops[0] != suspendedReason {
		t.Error(s.fired, s.drops)
	}
	s.e.Suspend(false)
	s.run(time.Second)
	if len(s.fired) != n+2 {
		t.Error(s.fired)
	}
	if b := s.given["event"]; len(b) != 1 || b[0].Count != 2 {
		t.Error(b)
	}
}

// A time that comes while nothing may fire is made up for once if catch_up is set.
func TestSuspendedCatchUp(t *testing.T) {
	o := order("a", at(t, "0 * * * *"))
	o.CatchUp = true
	s := start(t, o)
	s.e.Suspend(true)
	s.run(5 * time.Hour)
	s.wantFired()
	s.e.Suspend(false)
	s.run(time.Minute)
	if len(s.fired) != 1 || len(s.drops) != 0 {
		t.Error(s.fired, s.drops)
	}
}

// What comes to pass while an order is disabled, or not in the file, does not
// count when it is back, however it left and came.
func TestAway(t *testing.T) {
	leave := map[string]func(s *sim, o *Order){
		"disabled":         func(s *sim, o *Order) { o.Disabled = true; s.replace(o) },
		"disabled by hand": func(s *sim, _ *Order) { s.e.Enable("a", false, s.now) },
		"removed":          func(s *sim, _ *Order) { s.replace() },
	}
	back := map[string]func(s *sim, o *Order){
		"restart": func(s *sim, o *Order) { s.orders = []*Order{o}; s.restart(time.Minute) },
		"reload":  func(s *sim, o *Order) { s.replace(o) },
	}
	for left, leave := range leave {
		for came, back := range back {
			o := order("a", at(t, "0 * * * *"), on("x"))
			o.CatchUp = true
			s := start(t, o)
			s.run(90 * time.Minute)
			s.event("x")
			n := len(s.fired)
			leave(s, o)
			s.step()
			s.event("x", "x")
			s.run(5 * time.Hour)
			s.restart(time.Hour)
			if v, err := s.e.Look("a", s.now, nil); err == nil {
				if v.Pending != 0 || v.State.ByHand == DisabledByHand && left != "disabled by hand" {
					t.Errorf("%s: %+v", left, v)
				}
			}
			again := order("a", o.Gates...)
			again.CatchUp = true
			back(s, again)
			if left == "disabled by hand" {
				s.e.Enable("a", true, s.now)
			}
			s.step()
			if len(s.fired) != n {
				t.Errorf("%s, back by %s: %s", left, came, s.reason[n:])
			}
			s.event("x")
			s.run(time.Hour)
			if len(s.fired) != n+2 || s.given["a"][len(s.given["a"])-1].Count != 1 {
				t.Errorf("%s, back by %s: %v, %v", left, came, s.reason[n:], s.given)
			}
		}
	}
}

// A run that a person has queued starts for a disabled order, too.
func TestAskedWhileDisabled(t *testing.T) {
	o := order("a", at(t, "0 * * * *"))
	o.Disabled, o.Overlap = true, Queue
	s := start(t, o)
	s.length = time.Minute
	for range 2 {
		if _, err := s.e.Ask("a", "user", nil, s.now); err != nil {
			t.Fatal(err)
		}
		s.step()
	}
	s.e.Suspend(true)
	s.run(time.Hour)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.e.Suspend(false)
	s.run(time.Hour)
	if len(s.fired) != 2 || s.most != 1 {
		t.Error(s.fired)
	}
}

// An order that is held does not fire, and is checked again later.
func TestHeld(t *testing.T) {
	s := start(t, order("a", on("x")), order("b", on("x")))
	reason := "its pool is suspended"
	s.e.Held = func(o *Order) string {
		if o.Name == "a" {
			return reason
		}
		return ""
	}
	s.event("x")
	s.run(time.Minute)
	if len(s.fired) != 1 || s.steps > 30 {
		t.Error(s.fired, s.steps)
	}
	if v, _ := s.e.Look("a", s.now, nil); v.Due || !strings.Contains(v.Why, reason) {
		t.Errorf("%+v", v)
	}
	reason = ""
	s.run(time.Minute)
	if len(s.fired) != 2 {
		t.Error(s.fired)
	}
}

// An event fires an order once, not at every tick.
func TestEventOnce(t *testing.T) {
	s := start(t, order("a", on("bead.closed")))
	s.event("bead.closed")
	for range 5 {
		s.run(time.Hour)
		s.restart(time.Second)
	}
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
}

// Each of many events during runs belongs to exactly one run.
func TestEventStorm(t *testing.T) {
	s := start(t, order("a", on("bead.*")))
	s.event("bead.closed", "bead.closed") // seen
	s.length = 100 * time.Millisecond
	for i := range 30_000 {
		s.tell(event.Event{Type: []event.Type{"bead.closed", "other"}[i%3/2]})
		if i%97 == 0 {
			s.run(time.Millisecond)
		}
		if i == 15_000 {
			s.restart(time.Second)
			s.run(time.Second)
		}
	}
	s.run(10 * time.Second)
	total, last := 0, uint64(0)
	for _, b := range s.given["a"] {
		if b.After != last && b.After < last || b.Count > maxBatch {
			t.Errorf("%+v after %d", b, last)
		}
		total, last = total+b.Count, b.Until
	}
	if want := 2 + 20_000; total != want {
		t.Errorf("%d events handed over, want %d", total, want)
	}
}

func TestEventsOfItself(t *testing.T) {
	s := start(t, order("a", on("order.*")))
	s.tell(event.Event{Type: event.OrderCompleted, Path: PathOf("a")})
	s.tell(event.Event{Type: event.OrderCompleted, Path: "t/agent", Actor: PathOf("a")}) // what its run has asked for
	s.step()
	s.wantFired()
	s.tell(event.Event{Type: event.OrderCompleted, Path: PathOf("b")})
	s.step()
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
}

// A firing that could not be stored is undone, and nothing is lost.
func TestRefused(t *testing.T) {
	s := start(t, order("a", on("x")), order("b", at(t, "0 * * * *")))
	s.full = true
	s.event("x", "x")
	s.run(2 * time.Hour)
	s.event("x")
	s.wantFired()
	s.full = false
	s.run(time.Minute)
	if len(s.fired) != 2 || s.given["a"][0].Count != 3 || s.given["a"][0].After != 0 {
		t.Error(s.fired, s.given)
	}
}

func TestNext(t *testing.T) {
	both := order("c", at(t, "0 * * * *"), every(90*time.Minute))
	both.All = true
	s := start(t, order("a", every(time.Hour)), order("b", at(t, "0 0 * * *"), every(10*time.Hour)), both, order("d", on("x")), order("e"))
	for name, want := range map[string]string{
		"a": "01:00 02:00 03:00", "b": "10:00 20:00 00:00", "c": "01:00 02:30 04:00",
	} {
		all, err := s.e.Next(name, s.now, 3)
		var got []string
		for _, at := range all {
			got = append(got, at.Truncate(30*time.Minute).Format("15:04"))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"d", "e", "unknown"} {
		if all, err := s.e.Next(name, s.now, 3); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// Next is fast for any number of times at any distance, and ends with the calendar.
func TestNextIsBounded(t *testing.T) {
	seldom := order("seldom", at(t, "* * * * * *"), every(24*365*10*time.Hour))
	seldom.All = true
	s := start(t, seldom, order("leap", at(t, "0 0 29 2 */7")), order("ever", every(1<<63-1)), order("either", at(t, "0 0 29 2 */7"), every(1<<62)))
	for _, name := range []string{"seldom", "leap", "ever", "either"} {
		all, err := s.e.Next(name, s.now, 1000)
		if err != nil || len(all) < 20 || len(all) == 1000 || all[len(all)-1].Year() < 9000 {
			t.Errorf("%s: %d, %v", name, len(all), err)
		}
	}
}

func TestReplace(t *testing.T) {
	s := start(t, order("a", every(time.Hour)), order("b", on("x")))
	s.run(30 * time.Minute)
	s.event("y")
	s.e.Replace([]*Order{order("a", every(2*time.Hour)), order("c", on("x"))}, s.states, s.seq, s.now)
	s.step()
	s.run(80 * time.Minute)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.event("x")
	s.run(20 * time.Minute)
	if len(s.fired) != 3 {
		t.Error(s.fired)
	}
}
