package condition

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
)

// set decides which tasks are to be opened, which checks are to run, and about which tasks a person is asked.
// Durations count from any moment, by a clock that is never set.
type set struct {
	entries map[outcome.Condition]*entry
	tasks   map[string]*entry // by the id of a task
	met     map[string]met    // tasks whose condition holds, until they no longer wait
}

// entry is one condition, for all tasks that wait for it.
type entry struct {
	condition outcome.Condition
	waits     map[string]task.Wait
	filter    event.Filter // of an event
	check     *check       // nil if no command tells whether it holds
}

// check is a command that runs while tasks wait.
type check struct {
	command command
	turn    gate.Turn
	asking  map[string]task.Wait // the tasks that waited when it began
	endedAt time.Time            // zero if it has not run yet
	result  string               // how it has ended
}

// command is run by a check.
type command struct {
	line     string   // of a person
	argv     []string // of a service
	dir      string
	limit    time.Duration
	interval time.Duration
}

// met is a task whose condition holds.
type met struct {
	task.Wait
	why string
}

func newSet() *set {
	return &set{entries: map[outcome.Condition]*entry{}, tasks: map[string]*entry{}, met: map[string]met{}}
}

// keyOf returns a condition as it is compared with others: each service has one spelling.
func keyOf(c outcome.Condition) outcome.Condition {
	if c.Kind == outcome.ServiceUp {
		c.What = strings.ToLower(strings.TrimSpace(c.What))
	}
	return c
}

// replace replaces the tasks that wait. What is known of a condition stays while a task waits for it. If a new
// one waits for an event, it returns the number of the event after which events have to be observed.
func (s *set) replace(all []task.Wait, services []spec.Service, full func(string) string) (after uint64, news bool) {
	old := s.entries
	s.entries, s.tasks = make(map[outcome.Condition]*entry, len(old)), make(map[string]*entry, len(all))
	after = math.MaxUint64
	for _, w := range all {
		key := keyOf(w.Condition)
		en := s.entries[key]
		if en == nil {
			en = &entry{condition: w.Condition, waits: map[string]task.Wait{}}
			if en.filter = w.Condition.EventFilter(); en.filter.Path != "" &&
				!strings.HasPrefix(en.filter.Path, "orders/") {
				en.filter.Path = full(en.filter.Path)
			}
			en.watch(old[key], services)
			s.entries[key] = en
		}
		if before, known := old[key].waitOf(w); known {
			w.LastEvent = min(w.LastEvent, before.LastEvent) // unless the log is another one by now
		} else if w.Condition.Kind == outcome.EventOccurs {
			after, news = min(after, w.LastEvent), true
		}
		en.waits[w.ID], s.tasks[w.ID] = w, en
	}
	for key, en := range old { // a check that runs is not joined by another one
		if s.entries[key] == nil && en.check != nil && en.check.turn.Running() {
			en.waits = nil
			s.entries[key] = en
		}
	}
	maps.DeleteFunc(s.met, func(id string, m met) bool { return !s.waits(m.Wait) })
	return after, news
}

// waitOf returns what is known of a task that waits.
func (en *entry) waitOf(w task.Wait) (known task.Wait, ok bool) {
	if en == nil {
		return known, false
	}
	known, ok = en.waits[w.ID]
	return known, ok && known.Since.Equal(w.Since)
}

// watch sets the command of a condition. The state of a command that is the same as before stays.
func (en *entry) watch(before *entry, services []spec.Service) {
	var c command
	switch en.condition.Kind {
	case outcome.CommandSucceeds:
		c = command{line: en.condition.What, limit: spec.DefaultCheckLimit, interval: spec.DefaultCheckEvery}
	case outcome.ServiceUp:
		service := spec.FindService(services, en.condition.What)
		if service == nil {
			return
		}
		c = command{argv: service.Check, dir: service.Dir, limit: service.Timeout, interval: service.Interval}
	default:
		return
	}
	en.check = &check{command: c}
	if before != nil && before.check != nil {
		if old := before.check.command; old.line == c.line && slices.Equal(old.argv, c.argv) {
			en.check = before.check
			en.check.command = c
		}
	}
}

// waits reports whether a task still waits.
func (s *set) waits(w task.Wait) bool {
	_, ok := s.tasks[w.ID].waitOf(w)
	return ok
}

// observes reports whether any task waits for an event.
func (s *set) observes() bool {
	for _, en := range s.entries {
		if en.condition.Kind == outcome.EventOccurs {
			return true
		}
	}
	return false
}

// observe takes note of an event, and reports whether a task is to be opened.
func (s *set) observe(e event.Event) (opens bool) {
	if e.Type == event.EventsReset { // the log is another one, and counts from its start
		for _, en := range s.entries {
			for id, w := range en.waits {
				w.LastEvent = min(w.LastEvent, e.Seq)
				en.waits[id] = w
			}
		}
	}
	if e.Type == event.EventsReset || e.Type == event.EventsCompacted {
		return false
	}
	for _, en := range s.entries {
		if en.condition.Kind != outcome.EventOccurs || !en.filter.Match(e) {
			continue
		}
		own := taskOf(e)
		why := fmt.Sprintf("the event %s has come, number %d", e.Type, e.Seq)
		if e.Path != "" {
			why += ", about " + e.Path
		}
		for id, w := range en.waits {
			if _, done := s.met[id]; !done && e.Seq > w.LastEvent && id != own {
				s.met[id], opens = met{w, why}, true
			}
		}
	}
	return opens
}

// taskOf returns the id of the task that an event is about; "" if it is about none. What happens to a task
// itself does not open it.
func taskOf(e event.Event) string {
	var data struct {
		ID string `json:"id"`
	}
	if strings.HasPrefix(string(e.Type), "task.") {
		_ = json.Unmarshal(e.Data, &data) // an event without an id is about no task
	}
	return data.ID
}

// begin returns the checks that are due, which the caller runs.
func (s *set) begin(now time.Duration) (due []*entry) {
	for _, en := range s.entries {
		if len(en.waits) > 0 && en.check != nil && en.check.turn.Due(now) {
			en.check.turn.Begin()
			en.check.asking = maps.Clone(en.waits)
			due = append(due, en)
		}
	}
	return due
}

// ended takes note of the result of a check, and reports whether tasks are to be opened: those that have waited
// when it began, and wait still.
func (s *set) ended(en *entry, r gate.Result, now time.Duration, at time.Time) (opens bool) {
	c := en.check
	c.turn.End(now, c.command.interval)
	c.endedAt, c.result = at, describe(r)
	why := fmt.Sprintf("the command has succeeded: %s", c.command.line)
	if c.command.line == "" {
		why = fmt.Sprintf("the check of the service %s has succeeded", en.condition.What)
	}
	if now := s.entries[keyOf(en.condition)]; r.Open && now != nil && now.check == c { // the file has not changed
		for id, w := range c.asking {
			if s.waits(w) {
				s.met[id], opens = met{w, why}, true
			}
		}
	}
	c.asking = nil
	return opens
}

// maxResult bounds the text about a check, in bytes.
const maxResult = 300

// describe returns how a check has ended, in a line.
func describe(r gate.Result) string {
	text := r.Exit
	if n := len(r.Output); n > 0 && !strings.Contains(text, r.Output[n-1]) {
		text += ": " + strings.TrimSpace(r.Output[n-1])
	}
	if len(text) > maxResult {
		text = text[:maxResult] + " ..."
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// next returns the time until a check is due; at most longest.
func (s *set) next(now, longest time.Duration) time.Duration {
	for _, en := range s.entries {
		if len(en.waits) > 0 && en.check != nil {
			if at, idle := en.check.turn.Next(); idle {
				longest = min(longest, at-now)
			}
		}
	}
	return max(0, longest)
}

// question asks a person about a task.
type question struct {
	task.Wait
	text string
}

// overdue returns the tasks about which a person is to be asked: those that have waited for AskAfter, and those
// that wait for a service of which nothing else tells that it works.
func (s *set) overdue(now time.Time) (all []question) {
	for _, en := range s.entries {
		for _, w := range en.waits {
			switch {
			case w.Asked || w.Condition.Kind == outcome.PersonHas:
			case w.Condition.Kind == outcome.ServiceUp && en.check == nil:
				all = append(all, question{w, fmt.Sprintf("Does this work again: %s?", w.Condition.What)})
			case now.Sub(w.Since) >= AskAfter:
				text := fmt.Sprintf("It has waited since %s for the %s %s", w.Since.Local().Format(time.DateTime),
					w.Condition.Kind, w.Condition.What)
				if c := en.check; c != nil && c.result != "" {
					text += fmt.Sprintf(" (the last check: %s)", c.result)
				}
				all = append(all, question{w, text + ". Does it go on without that?"})
			}
		}
	}
	return all
}

// view describes a condition for people.
func (en *entry) view(now time.Duration, wall time.Time) task.Gate {
	g := task.Gate{Condition: en.condition, Tasks: len(en.waits)}
	for _, w := range en.waits {
		if g.Since.IsZero() || w.Since.Before(g.Since) {
			g.Since = w.Since
		}
	}
	if c := en.check; c != nil {
		g.CheckedAt, g.Result = c.endedAt, c.result
		at, idle := c.turn.Next()
		if g.Checking = !idle; idle {
			g.NextAt = wall.Add(max(0, at-now))
		}
	}
	return g
}
