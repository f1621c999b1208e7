package budget

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/token"
)

// Routes for budgets.
var (
	// List returns the budgets.
	List = api.Route[api.None, []Info]{
		Method: "GET", Path: "/budgets", For: api.People,
		ID: "listBudgets", Summary: "List the budgets",
		Doc:     "What is used of each limit, and which agents wait.",
		Returns: "The budgets, in the order of the file.",
	}
	// RaiseBudget allows as much again.
	RaiseBudget = api.Route[RaiseRequest, api.None]{
		Method: "POST", Path: "/budgets/raise", For: api.People,
		ID: "raiseBudget", Summary: "Allow as much again",
		Doc: "Of a budget per day, today; otherwise the agents go on, or the tasks are opened, that it has parked.",
	}
)

// State is the state of a budget.
type State string

const (
	Open    State = "open"
	Reached State = "reached"
)

// Info is a budget.
type Info struct {
	_       struct{}  `schema:"Budget" doc:"What agents may use."`
	Name    string    `json:"name" doc:"Its name."`
	Of      []string  `json:"of" doc:"Patterns of what it covers; empty for all agents."`
	Quota   string    `json:"quota,omitempty" doc:"Only what uses this account counts."`
	Per     string    `json:"per" enum:"day,run,task" doc:"What is summed up."`
	State   State     `json:"state" enum:"open,reached" doc:"Whether something waits because of it."`
	Reason  string    `json:"reason,omitempty" doc:"Which limit is reached."`
	Since   time.Time `json:"since,omitzero" doc:"When it was reached."`
	Until   time.Time `json:"until,omitzero" doc:"When its agents start by themselves."`
	Raised  int       `json:"raised" minimum:"0" doc:"How often it was raised today; 0 if it is not per day."`
	Limits  []Measure `json:"limits" doc:"Its limits, with what is used."`
	Waiting []string  `json:"waiting" doc:"The agents that wait for it, or for another budget, too."`
	Parked  []string  `json:"parked" doc:"The agents that wait for a person, if it is per run."`
	Tasks   []string  `json:"tasks" doc:"The tasks that it has parked."`
	Unknown []string  `json:"unreported" doc:"Agents that do not report all that is limited, with what they do not report."`
}

// RaiseRequest names a budget.
type RaiseRequest struct {
	_    struct{} `schema:"BudgetRaiseRequest" doc:"A budget."`
	Name string   `json:"name" maxLength:"1024" doc:"Its name."`
}

// Errors. They are wrapped with the details.
var (
	ErrNotFound = api.NewError(api.ErrNotFound, "no such budget")
	ErrNothing  = api.NewError(api.ErrConflict, "nothing to raise")
)

func errNotFound(name string, all []string) error {
	if hint := suggest.Nearest(name, all); hint != "" {
		return fmt.Errorf("%w: %.100q; did you mean %q?", ErrNotFound, name, hint)
	}
	return fmt.Errorf("%w: %.100q", ErrNotFound, name)
}

func errNothing(b *spec.Budget) error {
	what := "agent"
	if b.Per == spec.PerTask {
		what = "task"
	}
	return fmt.Errorf("%w: budget %s is per %s and has parked no %s", ErrNothing, b.Name, b.Per, what)
}

// Register adds the handlers of all routes to a server.
func (m *Manager) Register(s *api.Server) {
	m.RegisterReadOnly(s)
	RaiseBudget.Handle(s, func(ctx context.Context, _ token.Caller, req RaiseRequest) (api.None, error) {
		return api.None{}, m.Raise(ctx, req.Name)
	})
}

// RegisterReadOnly adds the handlers that work without a daemon.
func (m *Manager) RegisterReadOnly(s *api.Server) {
	List.Handle(s, func(context.Context, token.Caller, api.None) ([]Info, error) { return m.Budgets(), nil })
}

// Budgets returns all budgets.
func (m *Manager) Budgets() []Info {
	fleet, now := m.Agents.Budgeted(), time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(now)
	all := []Info{}
	for i := range m.budgets {
		b := &m.budgets[i]
		rec := m.record(b.Name)
		info := Info{
			Name: b.Name, Of: orEmpty(b.Of), Quota: b.Quota, Per: string(b.Per), State: Open, Since: rec.Since,
			Limits: m.measuresOf(b, now), Waiting: orEmpty(m.waiting.For(b.Name)),
			Parked: orEmpty(slices.Sorted(maps.Keys(rec.Agents))), Tasks: orEmpty(rec.parkedTasks()),
			Unknown: []string{},
		}
		if !rec.Since.IsZero() {
			info.State = Reached
		}
		switch b.Per {
		case spec.PerDay:
			info.Raised = rec.raised(m.date)
			if r, ok := reached(info.Limits); ok {
				info.Reason, info.Until = text(b, r, ""), midnight(now)
			}
		case spec.PerRun:
			for _, path := range info.Parked[:min(1, len(info.Parked))] {
				info.Reason = rec.Agents[path]
			}
		case spec.PerTask:
			for _, id := range info.Tasks[:min(1, len(info.Tasks))] {
				info.Reason = rec.Tasks[id].Parked
			}
		}
		for _, path := range slices.Sorted(maps.Keys(fleet.Agents)) {
			if limits := b.Unreported(fleet.Agents[path]); len(limits) > 0 && b.Covers(path) {
				info.Unknown = append(info.Unknown, fmt.Sprintf("%s: %s", path, names(limits)))
			}
		}
		all = append(all, info)
	}
	return all
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// measuresOf returns what is used of the limits of a budget: of one per run or task, of the run or task that has used
// most of any. Needs mu.
func (m *Manager) measuresOf(b *spec.Budget, now time.Time) (most []Measure) {
	switch b.Per {
	case spec.PerDay:
		return measures(b, m.today(b, now), m.record(b.Name).raised(m.date))
	case spec.PerRun:
		most = measures(b, cost.Sum{}, 0)
		for _, r := range m.covered(b) {
			most = higher(most, measures(b, r.sum(now), 0))
		}
	case spec.PerTask:
		most = measures(b, cost.Sum{}, 0)
		for _, r := range m.covered(b) {
			if r.task != "" {
				most = higher(most, measures(b, m.ofTask(r.task, now), m.record(b.Name).Tasks[r.task].Raised))
			}
		}
	}
	return most
}

// higher returns the measures of which one is nearest to its limit.
func higher(a, b []Measure) []Measure {
	share := func(all []Measure) (most float64) {
		for _, m := range all {
			most = max(most, m.Used/m.Max)
		}
		return most
	}
	if share(b) > share(a) {
		return b
	}
	return a
}
