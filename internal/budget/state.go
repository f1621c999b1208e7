// Package budget limits what agents use: tokens, dollars, turns, time and runs, per day, per run or per task. It sums
// up what the ledger has counted and what runs in progress have used so far. A run that reaches a budget is ended, and
// its agent waits; people are asked once.
//
// Nothing of it is a failure of an agent, and no limit of a supervisor counts it. What is not known is shown as
// unknown.
package budget

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
)

// state has the budgets, and what is used of them. Its methods decide, and do nothing else.
type state struct {
	budgets []spec.Budget
	matches map[string][]int               // indices of the budgets of an agent, by path, as far as it was asked
	totals  []cost.Sum                     // what is counted of each budget; nil if it is not known
	date    string                         // the local date that is summed up
	counted map[string]map[string]cost.Sum // on that date, by path and account
	tasks   map[string]cost.Sum            // what is counted, by the ID of tasks of runs in progress
	runs    map[string]*run                // the last run of each agent, by path; see put, drop and use
	using   []cost.Sum                     // what runs have used of each budget, without time; nil if it is not known
	records map[string]*record             // by the name of a budget
}

// run is a run in progress, or one that has ended and is not counted yet.
type run struct {
	path        string
	incarnation uint64
	account     string
	task        string    // ID; empty if it works at none, or at several
	began       time.Time // or was admitted
	ended       time.Time // zero while it runs
	used        cost.Sum  // so far, as was reported
	stopped     string    // why it is ended; empty if it is not
	stop        func(error) bool
}

// sum returns what the run has used.
func (r *run) sum(now time.Time) cost.Sum {
	s := r.used
	if !r.ended.IsZero() {
		now = r.ended
	}
	s.Runs, s.Time = 1, max(0, now.Sub(r.began))
	return s
}

// isRunning reports whether the run is in progress, and not ended by a budget already.
func (r *run) isRunning() bool { return r.stop != nil && r.ended.IsZero() && r.stopped == "" }

// record is stored for each budget.
type record struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since,omitzero"` // when it was reached; zero if it is not
	// Date and Raised are of a budget per day: how often it was raised on a date.
	Date   string `json:"date,omitempty"`
	Raised int    `json:"raised,omitempty"`
	// Agents are parked by a budget per run, with the reason, by path.
	Agents map[string]string `json:"agents,omitempty"`
	// Tasks are those that a budget per task has parked, or that were raised.
	Tasks map[string]taskRecord `json:"tasks,omitempty"`
}

// parkedTasks returns the tasks that the budget has parked, sorted.
func (r *record) parkedTasks() (all []string) {
	for _, id := range slices.Sorted(maps.Keys(r.Tasks)) {
		if r.Tasks[id].Parked != "" {
			all = append(all, id)
		}
	}
	return all
}

// taskRecord is the part of a record about a task.
type taskRecord struct {
	Parked string    `json:"parked,omitempty"` // why; empty if it was raised since
	Raised int       `json:"raised,omitempty"`
	At     time.Time `json:"at"`
}

// maxTasks bounds the tasks of a record; the oldest are forgotten.
const maxTasks = 1000

func newState() state {
	return state{
		matches: map[string][]int{},
		counted: map[string]map[string]cost.Sum{}, tasks: map[string]cost.Sum{}, runs: map[string]*run{},
		records: map[string]*record{},
	}
}

func dateOf(t time.Time) string { return t.Local().Format(time.DateOnly) }

// midnight returns the start of the next local day.
func midnight(t time.Time) time.Time {
	t = t.Local()
	return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.Local)
}

// begin begins another day, unless it is the day that is summed up.
func (s *state) begin(now time.Time) {
	if date := dateOf(now); s.date != date {
		s.date, s.counted, s.totals = date, map[string]map[string]cost.Sum{}, nil
		maps.DeleteFunc(s.runs, func(_ string, r *run) bool { return !r.ended.IsZero() })
		s.using = nil
	}
}

// record returns the record of a budget.
func (s *state) record(name string) *record {
	if s.records[name] == nil {
		s.records[name] = &record{Name: name}
	}
	return s.records[name]
}

// raised returns how often a budget per day was raised today.
func (r *record) raised(date string) int {
	if r.Date != date {
		return 0
	}
	return r.Raised
}

// declare replaces the budgets.
func (s *state) declare(budgets []spec.Budget) {
	s.budgets, s.totals, s.using = budgets, nil, nil
	clear(s.matches)
}

// count replaces what is counted of an agent today.
func (s *state) count(path string, day map[string]cost.Sum) {
	s.counted[path], s.totals = day, nil
}

// covering calls do with the index of each budget of an agent that uses an account.
func (s *state) covering(path, account string, do func(i int)) {
	all, known := s.matches[path]
	if !known {
		for i := range s.budgets {
			if s.budgets[i].Covers(path) {
				all = append(all, i)
			}
		}
		s.matches[path] = all
	}
	for _, i := range all {
		if q := s.budgets[i].Quota; q == "" || q == account {
			do(i)
		}
	}
}

// covers reports whether a budget is of an agent that uses an account.
func (s *state) covers(b *spec.Budget, path, account string) (is bool) {
	s.covering(path, account, func(i int) { is = is || s.budgets[i].Name == b.Name })
	return is
}

// covered returns the runs that a budget covers, in no order.
func (s *state) covered(b *spec.Budget) (all []*run) {
	for path, r := range s.runs {
		if s.covers(b, path, r.account) {
			all = append(all, r)
		}
	}
	return all
}

// today returns what everything that a budget covers has used today.
func (s *state) today(b *spec.Budget, now time.Time) cost.Sum {
	i := slices.IndexFunc(s.budgets, func(other spec.Budget) bool { return other.Name == b.Name })
	return s.days(now)[i]
}

// ofTask returns what all runs have used that have worked at a task.
func (s *state) ofTask(id string, now time.Time) cost.Sum {
	used := s.tasks[id]
	for _, r := range s.runs {
		if r.task == id {
			used = used.Plus(r.sum(now))
		}
	}
	return used
}

// scopes complete the text of a measure.
var scopes = map[spec.Period]string{spec.PerDay: "today", spec.PerRun: "in a run", spec.PerTask: "at "}

// text says that a limit is reached.
func text(b *spec.Budget, m Measure, task string) string {
	return fmt.Sprintf("budget %s: %s %s%s", b.Name, m, scopes[b.Per], task)
}

// refusal says why an agent may not start.
type refusal struct {
	budgets []string
	why     string
	until   time.Time // zero: until a person acts
}

// refuses returns why an agent may not start now; nil if it may.
func (s *state) refuses(path, account string, now time.Time) *refusal {
	s.begin(now)
	var no refusal
	days := sync.OnceValue(func() []cost.Sum { return s.days(now) })
	s.covering(path, account, func(i int) {
		b := &s.budgets[i]
		rec := s.records[b.Name]
		if rec == nil {
			rec = &record{}
		}
		why, until := rec.Agents[path], time.Time{}
		if b.Per == spec.PerDay {
			if m, ok := reached(measures(b, days()[i], rec.raised(s.date))); ok {
				why, until = text(b, m, ""), midnight(now)
			}
		}
		if why == "" {
			return
		}
		if len(no.budgets) == 0 || !no.until.IsZero() && until.IsZero() {
			no.why, no.until = why, until
		}
		no.budgets = append(no.budgets, b.Name)
	})
	if len(no.budgets) == 0 {
		return nil
	}
	return &no
}

// raise raises a budget, and returns the tasks that are to be opened. ok is false if there is nothing to raise.
func (s *state) raise(b *spec.Budget, now time.Time) (tasks []string, ok bool) {
	s.begin(now)
	rec := s.record(b.Name)
	switch b.Per {
	case spec.PerRun:
		ok = len(rec.Agents) > 0
		rec.Agents = nil
	case spec.PerTask:
		tasks = rec.parkedTasks()
		for _, id := range tasks {
			raised := raisesNeeded(b, s.ofTask(id, now), rec.Tasks[id].Raised)
			rec.Tasks[id] = taskRecord{Raised: raised, At: now}
		}
		ok = len(tasks) > 0
	default:
		rec.Raised = raisesNeeded(b, s.today(b, now), rec.raised(s.date))
		rec.Date, ok = s.date, true
	}
	return tasks, ok
}

// names joins names, the first of them if there are many.
func names(all []string) string {
	const most = 5
	text := strings.Join(all[:min(most, len(all))], ", ")
	if n := len(all) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
