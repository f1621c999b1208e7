package budget

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Raise allows as much again: today for a budget per day, otherwise for the agents or tasks that it has parked.
func (m *Manager) Raise(ctx context.Context, name string) error {
	m.mu.Lock()
	i := slices.IndexFunc(m.budgets, func(b spec.Budget) bool { return b.Name == name })
	if i < 0 {
		var all []string
		for _, b := range m.budgets {
			all = append(all, b.Name)
		}
		m.mu.Unlock()
		return errNotFound(name, all)
	}
	b := m.budgets[i]
	parked := m.record(name).parkedTasks()
	m.mu.Unlock()
	m.reading.Lock() // what is read stays known until it is used
	for _, id := range parked {
		m.readTask(ctx, id)
	}
	m.mu.Lock()
	tasks, ok := m.raise(&b, time.Now())
	m.reading.Unlock()
	if !ok {
		m.mu.Unlock()
		return errNothing(&b)
	}
	what := map[spec.Period]string{spec.PerRun: "its agents go on", spec.PerTask: "open again: " + names(tasks)}[b.Per]
	if what == "" {
		what = texts(m.measuresOf(&b, time.Now())) + " today"
	}
	m.save(name, event.BudgetRaised, fmt.Sprintf("budget %s is raised: %s", name, what))
	m.mu.Unlock()
	m.check()
	m.waiting.Start(m.waiting.For(name), true)
	var failed error
	for _, id := range tasks {
		if err := m.Tasks().Unpark(ctx, id, "budget "+name+" is raised"); err != nil && failed == nil {
			failed = fmt.Errorf("opening a task that the budget has parked: %w", err)
		}
	}
	return failed
}
