package order

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// sim drives an engine through simulated time, and stores its states.
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
	most   int            // concurrent runs of one order
	given  map[string][]Batch
	log    []event.Type
	causes []string              // "name [causes]" of each run, since want
	led    map[string][][]string // causes of all runs
	slow   int                   // the number of Slow actions
}

type ending struct {
	name string
	at   time.Duration
}

func start(t testing.TB, orders ...*Order) *sim {
	s := &sim{
		t: t, orders: orders, states: make(map[string]State), count: make(map[string]int), given: make(map[string][]Batch), led: make(map[string][][]string),
		now: Now{Wall: time.Date(2024, 3, 1, 0, 0, 30, 0, time.UTC), Up: time.Hour, Boot: "one"},
	}
	s.open()
	return s
}

// open starts another daemon.
func (s *sim) open() {
	s.e = New(s.orders, s.states, s.seq, s.now)
	clear(s.count)
	for _, end := range s.ends {
		s.count[end.name]++
		s.e.Began(end.name)
	}
	s.step()
}

// replace replaces the orders of the engine, as a change of the file does.
func (s *sim) replace(all ...*Order) {
	s.orders = all
	for _, gone := range s.e.Replace(all, s.states, s.e.Seen(), s.now) {
		s.states[gone.Name] = gone
	}
	s.step()
}

// restart lets time pass without an engine.
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
		s.causes, s.led[name] = append(s.causes, fmt.Sprint(name, " ", a.Causes)), append(s.led[name], a.Causes)
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
	case Slow:
		s.slow++
	}
}

// run lets the daemon run for a while. It wakes after Engine.Wait.
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
