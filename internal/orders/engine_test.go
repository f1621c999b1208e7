package orders

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// sim drives an engine through time that nobody waits for, and remembers what it
// has written.
type sim struct {
	t      testing.TB
	e      *Engine
	orders []*Order
	states map[string]State
	now    Now
	seq    uint64
	fired  []string // "name at"
	reason []string
	drops  []string
	checks int
	truth  bool // what checks say
	length time.Duration
	ends   []ending
	full   bool // nothing can be written
	steps  int
	count  map[string]int // runs that go on
	most   int            // at once, of one order
	given  map[string][]Batch
	log    []event.Type
}

type ending struct {
	name string
	at   time.Duration
}

func start(t testing.TB, orders ...*Order) *sim {
	s := &sim{
		t: t, orders: orders, states: make(map[string]State), count: make(map[string]int), given: make(map[string][]Batch),
		now: Now{Wall: time.Date(2024, 3, 1, 0, 0, 30, 0, time.UTC), Up: time.Hour, Boot: "one"},
	}
	s.open()
	return s
}

// open begins another life of the daemon.
func (s *sim) open() {
	s.e = New(s.orders, s.states, s.seq, s.now)
	clear(s.count)
	for _, end := range s.ends {
		s.count[end.name]++
		s.e.Began(end.name)
	}
	s.step()
}

// replace makes others the orders of the engine, as a change of the file does.
func (s *sim) replace(all ...*Order) {
	s.orders = all
	for _, gone := range s.e.Replace(all, s.states, s.e.Seen(), s.now) {
		s.states[gone.Name] = gone
	}
	s.step()
}

// restart lets time pass while nobody looks.
func (s *sim) restart(away time.Duration) {
	s.pass(away)
	s.open()
	for seq := s.e.Seen() + 1; seq <= s.seq; seq++ {
		s.e.Event(event.Event{Seq: seq, Type: s.log[seq-1]})
	}
	s.step()
}

func (s *sim) pass(d time.Duration) { s.now.Wall, s.now.Up = s.now.Wall.Add(d), s.now.Up+d }

func (s *sim) step() {
	for i := 0; ; i++ {
		actions := s.e.Step(s.now)
		if i > 1000 {
			panic(fmt.Sprintf("it spins: %+v", actions))
		}
		s.steps++
		for _, a := range actions {
			s.do(a)
		}
		if len(actions) == 0 && s.e.Wait(s.now, time.Hour) > 0 {
			return
		}
	}
}

func (s *sim) do(a Action) {
	name := a.Order.Name
	if a.Do == Check {
		s.checks++
		s.e.Checked(name, s.truth, s.now)
		return
	}
	if s.full {
		s.e.Refused(a, s.now)
		return
	}
	s.states[name] = a.State
	switch a.Do {
	case Fire:
		s.fired = append(s.fired, name+" "+s.now.Wall.UTC().Format("02T15:04:05"))
		s.reason = append(s.reason, a.Reason)
		if a.Events != nil {
			s.given[name] = append(s.given[name], *a.Events)
		}
		s.count[name]++
		s.most = max(s.most, s.count[name])
		if s.length > 0 {
			s.ends = append(s.ends, ending{name, s.now.Up + s.length})
			return
		}
		s.count[name]--
		s.e.Ended(name)
	case Drop:
		s.drops = append(s.drops, a.Reason)
	}
}

// run lets the daemon run for a while: it wakes when the engine says so.
func (s *sim) run(d time.Duration) {
	until := s.now.Up + d
	for s.now.Up < until {
		wait := min(s.e.Wait(s.now, 30*time.Second), until-s.now.Up)
		for _, end := range s.ends {
			wait = min(wait, end.at-s.now.Up)
		}
		s.pass(max(wait, time.Nanosecond))
		for i := 0; i < len(s.ends); i++ {
			if end := s.ends[i]; end.at <= s.now.Up {
				s.ends = append(s.ends[:i], s.ends[i+1:]...)
				s.count[end.name]--
				s.e.Ended(end.name)
				i--
			}
		}
		s.step()
	}
}

func (s *sim) event(types ...event.Type) {
	for _, t := range types {
		s.tell(event.Event{Type: t})
	}
	s.step()
}

// tell writes an event into the log.
func (s *sim) tell(e event.Event) {
	s.seq++
	s.log = append(s.log, e.Type)
	e.Seq = s.seq
	s.e.Event(e)
}

func (s *sim) wantFired(want ...string) {
	s.t.Helper()
	if fmt.Sprint(s.fired) != fmt.Sprint(want) {
		s.t.Errorf("fired %v, want %v", s.fired, want)
	}
}

func order(name string, gates ...Gate) *Order {
	return &Order{Name: name, Command: []string{"true"}, Gates: gates}
}

func at(t testing.TB, expr string) Gate {
	t.Helper()
	schedule, err := cron.Parse(expr, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return Gate{Kind: Cron, Schedule: schedule}
}

func every(d time.Duration) Gate { return Gate{Kind: Cooldown, Interval: d} }
func when() Gate {
	return Gate{Kind: Condition, Check: []string{"true"}, Every: spec.DefaultCheckEvery}
}
func on(types ...string) Gate { return Gate{Kind: Event, On: spec.EventFilter{Types: types}} }

func TestCooldown(t *testing.T) {
	s := start(t, order("a", every(24*time.Hour)))
	s.wantFired("a 01T00:00:30")
	if s.reason[0] != "never run" {
		t.Error(s.reason)
	}
	s.run(12 * time.Hour)
	if v, _ := s.e.Look("a", s.now, nil); v.Due || v.Why != "cooldown: 12h0m0s remaining" || !v.Next.Equal(s.now.Wall.Add(12*time.Hour)) {
		t.Errorf("%+v", v)
	}
	s.run(37 * time.Hour)
	s.wantFired("a 01T00:00:30", "a 02T00:00:30", "a 03T00:00:30")
}

// Fault of the original: a cooldown that is longer than records are kept.
func TestCooldownOverRestarts(t *testing.T) {
	s := start(t, order("weekly", every(168*time.Hour)))
	for range 14 {
		s.run(time.Hour)
		s.restart(23 * time.Hour)
	}
	if len(s.fired) != 3 { // at the beginning, after 7 days, after 14
		t.Errorf("fired %v", s.fired)
	}
}

// The clock may be set as anybody likes, while the daemon lives or not.
func TestCooldownAndTheClock(t *testing.T) {
	for _, step := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour, 90 * time.Minute, -90 * time.Minute} {
		for _, lives := range []bool{true, false} {
			s := start(t, order("a", every(time.Hour)))
			s.run(20 * time.Minute)
			s.now.Wall = s.now.Wall.Add(step)
			if !lives {
				s.open()
			}
			s.run(39 * time.Minute)
			if len(s.fired) != 1 {
				t.Errorf("step %v, lives %v: early: %v", step, lives, s.fired)
			}
			s.run(2 * time.Minute)
			if len(s.fired) != 2 {
				t.Errorf("step %v, lives %v: late: %v", step, lives, s.fired)
			}
		}
	}
	// Over a boot only the calendar is there, and one that was set back costs an interval.
	s := start(t, order("a", every(time.Hour)))
	s.now.Boot, s.now.Up, s.now.Wall = "two", time.Minute, s.now.Wall.Add(-365*24*time.Hour)
	s.open()
	s.run(59 * time.Minute)
	s.now.Wall = s.now.Wall.Add(400 * 24 * time.Hour)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.run(2 * time.Minute)
	if len(s.fired) != 2 {
		t.Error(s.fired)
	}
}

func TestCron(t *testing.T) {
	s := start(t, order("a", at(t, "*/20 9-10 * * *")))
	s.run(24 * time.Hour)
	s.wantFired("a 01T09:00:00", "a 01T09:20:00", "a 01T09:40:00", "a 01T10:00:00", "a 01T10:20:00", "a 01T10:40:00")
	if next, err := s.e.Next("a", s.now, 2); err != nil || len(next) != 2 || next[1].Format("02T15:04") != "02T09:20" {
		t.Error(next, err)
	}
}

// No minute is lost when a tick is slow.
func TestCronSlowTick(t *testing.T) {
	s := start(t, order("a", at(t, "0 3 * * *")))
	s.run(2*time.Hour + 59*time.Minute + 29*time.Second)
	s.pass(31 * time.Second) // to 03:00:30
	s.step()
	s.wantFired("a 01T03:00:30")
	s.pass(20 * time.Second)
	s.step()
	s.wantFired("a 01T03:00:30")
}

func TestCronMissed(t *testing.T) {
	s := start(t, order("a", at(t, "0 3 * * *")))
	s.restart(4 * time.Hour)
	s.wantFired()
	if len(s.drops) != 1 || !strings.Contains(s.drops[0], "2024-03-01T03:00:00Z has passed") {
		t.Error(s.drops)
	}
	s.restart(23*time.Hour - 10*time.Second) // 03:00:20
	s.wantFired("a 02T03:00:20")
	s.restart(time.Second)
	s.restart(time.Second)
	s.wantFired("a 02T03:00:20")

	up := order("a", at(t, "0 3 * * *"))
	up.CatchUp = true
	s = start(t, up)
	s.restart(100 * time.Hour) // five of them
	s.wantFired("a 05T04:00:30")
	s.run(time.Hour)
	s.restart(0)
	s.wantFired("a 05T04:00:30")
}

// Times from before an order existed do not count, nor those of a schedule that it did not have.
func TestCronBefore(t *testing.T) {
	up := order("a", at(t, "0 0 * * *"))
	up.CatchUp = true
	s := start(t, up)
	s.wantFired() // midnight was 30 s ago
	s.run(time.Hour)
	changed := order("a", at(t, "30 0 * * *"))
	changed.CatchUp = true
	s.orders = []*Order{changed}
	s.restart(time.Second)
	s.wantFired()
	s.run(24 * time.Hour)
	s.wantFired("a 02T00:30:00")
}

func TestCronAndTheClock(t *testing.T) {
	s := start(t, order("a", at(t, "0 * * * *")))
	s.run(3*time.Hour + 10*time.Minute)
	s.now.Wall = s.now.Wall.Add(-2 * time.Hour) // 01:10: 2:00 and 3:00 have been
	s.run(2 * time.Hour)                        // 03:10
	if len(s.fired) != 3 {
		t.Errorf("times fired twice: %v", s.fired)
	}
	s.run(time.Hour)
	if len(s.fired) != 4 {
		t.Errorf("after that: %v", s.fired)
	}
	s.now.Wall = s.now.Wall.Add(-30 * 24 * time.Hour) // it was wrong all the time
	s.run(2 * time.Hour)
	if len(s.fired) != 6 {
		t.Errorf("after a correction: %v", s.fired)
	}
	s.now.Wall = s.now.Wall.Add(10 * 24 * time.Hour)
	s.run(30 * time.Minute)
	if len(s.fired) != 6 || len(s.drops) != 1 {
		t.Errorf("after a step ahead: %v, %v", s.fired, s.drops)
	}
}

// Faults of the original: a condition, or a cooldown, with runs that take
// longer: five at once in five ticks.
func TestNeverTwoAtOnce(t *testing.T) {
	for name, gate := range map[string]Gate{"condition": when(), "cooldown": every(time.Second), "cron": at(t, "* * * * * *"), "event": on("x")} {
		s := start(t, order("a", gate))
		s.truth, s.length = true, 10*time.Minute
		for range 60 {
			s.run(time.Minute)
			s.event("x")
		}
		if s.most != 1 || len(s.fired) < 5 || len(s.fired) > 7 {
			t.Errorf("%s: %d at once, fired %v", name, s.most, s.fired)
		}
	}
}

func TestOverlap(t *testing.T) {
	type result struct{ atOnce, fired, dropped int }
	for overlap, want := range map[spec.Overlap]result{Skip: {1, 1, 5}, Queue: {1, 2, 0}, Allow: {6, 6, 0}} {
		o := order("a", at(t, "0 * * * *"))
		o.Overlap = overlap
		s := start(t, o)
		s.length = 5*time.Hour + 30*time.Minute
		s.run(6*time.Hour + 45*time.Minute) // a run from 1:00 to 6:30, and what comes of the times between
		if got := (result{s.most, len(s.fired), len(s.drops)}); got != want {
			t.Errorf("%v: %+v, want %+v", overlap, got, want)
		}
	}
}

// What waits for its turn is not forgotten with the daemon.
func TestQueueOverRestart(t *testing.T) {
	o := order("a", at(t, "0 1,2 * * *"))
	o.Overlap = Queue
	s := start(t, o)
	s.length = 5 * time.Hour
	s.run(3 * time.Hour)
	s.restart(time.Minute)
	s.run(4 * time.Hour)
	if len(s.fired) != 2 || s.most != 1 {
		t.Errorf("%v, %d at once", s.fired, s.most)
	}
}

func TestCondition(t *testing.T) {
	s := start(t, order("a", when()))
	s.run(10 * time.Minute)
	if len(s.fired) != 0 || s.checks < 19 || s.checks > 22 {
		t.Errorf("%v, %d checks", s.fired, s.checks)
	}
	s.truth = true
	s.run(31 * time.Second)
	s.truth = false
	s.run(5 * time.Minute)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
}

// What a check has said is forgotten where it cannot be followed, and is not asked for again at once.
func TestConditionDoesNotSpin(t *testing.T) {
	o := order("a", when(), at(t, "0 0 1 1 *"))
	o.All = true
	s := start(t, o)
	s.truth = true
	s.run(24 * time.Hour)
	if s.checks != 0 || s.steps > 24*3600/30*3 {
		t.Errorf("%d checks, %d steps", s.checks, s.steps)
	}
	o = order("a", when(), every(time.Hour))
	o.All = true
	s = start(t, o)
	s.truth = true
	s.e.Suspend(true)
	s.run(24 * time.Hour)
	if s.checks > 1 || len(s.fired) > 1 || s.steps > 24*3600/30*3 {
		t.Errorf("suspended: %d checks, %v, %d steps", s.checks, s.fired, s.steps)
	}
	s.e.Suspend(false)
	s.full = true
	s.run(time.Hour)
	if len(s.fired) > 1 || s.checks > 3600/5+2 {
		t.Errorf("full: %d checks, %v", s.checks, s.fired)
	}
	s.full = false
	s.run(time.Minute)
	if n := len(s.fired); n < 1 || n > 2 {
		t.Error(s.fired)
	}
}

func TestAll(t *testing.T) {
	o := order("a", at(t, "0 3 * * *"), every(36*time.Hour), when())
	o.All = true
	s := start(t, o)
	s.run(26 * time.Hour)
	if len(s.fired) != 0 || s.checks == 0 {
		t.Errorf("%v, %d checks", s.fired, s.checks)
	}
	s.truth = true // at 02:00 of the second: the time of the first day still waits
	s.run(31 * time.Second)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.run(36 * time.Hour)
	if len(s.fired) != 2 { // 36 h later, the 3:00 of the third has come
		t.Error(s.fired)
	}
}

func TestAny(t *testing.T) {
	s := start(t, order("a", at(t, "0 3 * * *"), on("x")))
	s.run(time.Hour)
	s.event("x", "y", "x")
	s.run(3 * time.Hour)
	if len(s.fired) != 2 || s.reason[0] != "2 events" && s.reason[0] != "1 event" {
		t.Error(s.fired, s.reason)
	}
}

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
	if err := s.e.Enable("nobody", true, s.now); err != ErrUnknown {
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

// A time that comes while nothing may fire is made up for once, where that is asked for.
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

// A person's wish that waits for the end of a run is fulfilled for a disabled order, too.
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

// One whose target may not work is not fired, and is looked at again.
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

// Fault of the original: one event fired at every tick.
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

// A storm of events while runs go on: each belongs to one run.
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
		if b.After != last && b.After < last || b.Count > MaxBatch {
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
	s.step()
	s.wantFired()
	s.tell(event.Event{Type: event.OrderCompleted, Path: PathOf("b")})
	s.step()
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
}

// What could not be written has not happened, and nothing of it is lost.
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
	for _, name := range []string{"d", "e", "nobody"} {
		if all, err := s.e.Next(name, s.now, 3); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// However many are asked for, and however far apart: they are found at once, and end with the calendar.
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

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "nightly-backup_2.x": true, "": false, ".a": false, "-a": false, "a/b": false, "ä": false, "a b": false, strings.Repeat("x", 101): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A tick of 10,000 orders of which none is due, and one of 10,000 that all are.
func BenchmarkTick(b *testing.B) {
	schedule, err := cron.Parse("0 * * * *", time.UTC)
	if err != nil {
		b.Fatal(err)
	}
	var all []*Order
	for i := range 10_000 {
		all = append(all, order(fmt.Sprintf("o%d", i), Gate{Kind: Cron, Schedule: schedule}))
	}
	b.Run("idle", func(b *testing.B) {
		s := start(b, all...)
		for b.Loop() {
			s.pass(time.Microsecond)
			s.e.Step(s.now)
		}
	})
	b.Run("all due", func(b *testing.B) {
		s := start(b, all...)
		longest := time.Duration(0)
		for b.Loop() {
			s.pass(time.Hour)
			for fired := 0; fired < len(all); {
				begin := time.Now()
				actions := s.e.Step(s.now)
				longest = max(longest, time.Since(begin))
				fired += len(actions)
			}
			for _, o := range all {
				s.e.Ended(o.Name)
			}
			for s.e.Wait(s.now, time.Second) == 0 {
				s.e.Step(s.now)
			}
		}
		b.ReportMetric(float64(longest.Microseconds()), "longest-step-µs")
	})
}
