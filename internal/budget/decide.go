package budget

import (
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
)

// decision lists the consequences of what is used.
type decision struct {
	stop    []*run            // each has its reason
	reached map[string]string // budgets that are reached since now, with the reason
	opened  []string          // budgets that are no longer reached
	changed map[string]bool   // budgets whose record has changed
}

// decide compares what is used with the budgets. What it returns is noted.
func (s *state) decide(now time.Time) decision {
	s.begin(now)
	d := decision{reached: map[string]string{}, changed: map[string]bool{}}
	days := s.days(now)
	for i := range s.budgets {
		b := &s.budgets[i]
		rec := s.record(b.Name)
		var why string
		switch b.Per {
		case spec.PerRun:
			why = s.decideRuns(b, rec, now, &d)
		case spec.PerTask:
			why = s.decideTasks(b, rec, now, &d)
		default:
			why = s.decideDay(b, rec, days[i], &d)
		}
		switch {
		case why != "" && rec.Since.IsZero():
			rec.Since, d.reached[b.Name], d.changed[b.Name] = now, why, true
		case why == "" && !rec.Since.IsZero():
			rec.Since, d.changed[b.Name] = time.Time{}, true
			d.opened = append(d.opened, b.Name)
		}
	}
	return d
}

// end has a run ended, unless it is already.
func (d *decision) end(r *run, why string) {
	if r.isRunning() {
		r.stopped = why
		d.stop = append(d.stop, r)
	}
}

func (s *state) decideDay(b *spec.Budget, rec *record, used cost.Sum, d *decision) (why string) {
	all := measures(b, used, rec.raised(s.date))
	m, ok := reached(all)
	if !ok {
		return ""
	}
	why = text(b, m, "")
	if m.ends() {
		for _, r := range s.covered(b) {
			d.end(r, why)
		}
	}
	return why
}

func (s *state) decideRuns(b *spec.Budget, rec *record, now time.Time, d *decision) (why string) {
	for _, r := range s.covered(b) {
		if m, ok := reached(measures(b, r.sum(now), 0)); ok && r.isRunning() {
			why := text(b, m, "")
			if rec.Agents == nil {
				rec.Agents = map[string]string{}
			}
			rec.Agents[r.path], d.changed[b.Name] = why, true
			d.end(r, why)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(rec.Agents)) {
		return rec.Agents[path]
	}
	return ""
}

func (s *state) decideTasks(b *spec.Budget, rec *record, now time.Time, d *decision) (why string) {
	for _, r := range s.covered(b) {
		if r.task == "" {
			continue
		}
		if m, ok := reached(measures(b, s.ofTask(r.task, now), rec.Tasks[r.task].Raised)); ok && m.ends() {
			d.end(r, text(b, m, r.task))
		}
	}
	for _, id := range rec.parkedTasks() {
		return rec.Tasks[id].Parked
	}
	return ""
}

// parkTask returns why a task at which a run of an agent has worked is parked now; empty if it is not.
func (s *state) parkTask(path, account, id string, now time.Time) (why string, changed []string) {
	for i := range s.budgets {
		b := &s.budgets[i]
		if b.Per != spec.PerTask || !s.covers(b, path, account) {
			continue
		}
		rec := s.record(b.Name)
		t := rec.Tasks[id]
		m, ok := reached(measures(b, s.ofTask(id, now), t.Raised))
		if !ok {
			continue
		}
		if rec.Tasks == nil {
			rec.Tasks = map[string]taskRecord{}
		}
		t.Parked, t.At = text(b, m, id), now
		rec.Tasks[id] = t
		for len(rec.Tasks) > maxTasks {
			delete(rec.Tasks, slices.MinFunc(slices.Collect(maps.Keys(rec.Tasks)), func(a, b string) int {
				return rec.Tasks[a].At.Compare(rec.Tasks[b].At)
			}))
		}
		changed = append(changed, b.Name)
		if why == "" {
			why = t.Parked
		}
	}
	return why, changed
}

// next returns when a limit of time may be reached, or the day ends, whichever comes first.
func (s *state) next(now time.Time) time.Time {
	at := midnight(now)
	// sooner takes note that n runs use up a time.
	sooner := func(b *spec.Budget, used time.Duration, raised, n int) {
		if left := b.Time*time.Duration(1+raised) - used; n > 0 && left > 0 {
			if t := now.Add(left/time.Duration(n) + time.Millisecond); t.Before(at) {
				at = t
			}
		}
	}
	for i := range s.budgets {
		b := &s.budgets[i]
		if b.Time == 0 {
			continue
		}
		running := slices.DeleteFunc(s.covered(b), func(r *run) bool { return !r.isRunning() })
		rec := s.record(b.Name)
		if b.Per == spec.PerDay {
			sooner(b, s.today(b, now).Time, rec.raised(s.date), len(running))
		}
		for _, r := range running {
			switch {
			case b.Per == spec.PerRun:
				sooner(b, r.sum(now).Time, 0, 1)
			case b.Per == spec.PerTask && r.task != "":
				n := 0
				for _, other := range s.runs {
					if other.task == r.task && other.ended.IsZero() {
						n++
					}
				}
				sooner(b, s.ofTask(r.task, now).Time, rec.Tasks[r.task].Raised, n)
			}
		}
	}
	return at
}

// forget drops what is known of budgets that are not declared, of agents that are not there, and of tasks that no run
// works at. It returns the budgets that are gone.
func (s *state) forget(has func(path string) bool) (gone []string, changed []string) {
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		i := slices.IndexFunc(s.budgets, func(b spec.Budget) bool { return b.Name == name })
		rec := s.records[name]
		if i < 0 {
			delete(s.records, name)
			gone = append(gone, name)
			continue
		}
		n := len(rec.Agents) + len(rec.Tasks)
		maps.DeleteFunc(rec.Agents, func(path, _ string) bool {
			return s.budgets[i].Per != spec.PerRun || !s.budgets[i].Covers(path) || !has(path)
		})
		if s.budgets[i].Per != spec.PerTask {
			rec.Tasks = nil
		}
		if len(rec.Agents)+len(rec.Tasks) != n {
			changed = append(changed, name)
		}
	}
	return gone, changed
}
