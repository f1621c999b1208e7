package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// Tally counts events of agents. The zero value has counted none.
type Tally struct {
	agents map[string]*Agent
	events int
	until  time.Time // of the last event, if there are more than MaxEvents
}

// countedTypes are the types of the events that a Tally counts.
func countedTypes() []string {
	return []string{
		string(event.AgentStarted), string(event.AgentStartFailed), string(event.AgentCrashed),
		string(event.AgentLost),
	}
}

// Add counts an event, and reports whether more can be counted.
func (t *Tally) Add(e event.Event) bool {
	if !slices.Contains(countedTypes(), string(e.Type)) {
		return true
	}
	if t.events++; t.agents == nil {
		t.agents = make(map[string]*Agent)
	}
	a := t.agents[e.Path]
	if a == nil {
		a = &Agent{Path: e.Path}
		t.agents[e.Path] = a
	}
	switch e.Type {
	case event.AgentStarted:
		a.Starts++
		var started event.Started
		if e.Decode(&started) == nil && started.Restart {
			a.Restarts++
		}
	case event.AgentLost:
		a.Lost++
	default:
		a.Failures++
		a.LastFailure, a.FailedAt = text(e.Text()), e.Time
	}
	if t.events == MaxEvents {
		t.until = e.Time
	}
	return t.events < MaxEvents
}

func (t *Tally) runs() Runs {
	r := Runs{Until: t.until}
	all := slices.SortedFunc(maps.Values(t.agents), func(a, b *Agent) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), cmp.Compare(b.Starts, a.Starts), cmp.Compare(a.Path, b.Path))
	})
	for _, a := range all {
		r.Starts, r.Restarts = r.Starts+a.Starts, r.Restarts+a.Restarts
		r.Failures, r.Lost = r.Failures+a.Failures, r.Lost+a.Lost
	}
	r.Agents = shorten(all, func(a *Agent) Agent {
		shown := *a
		shown.Path = name(a.Path)
		return shown
	})
	return r
}
