package budget

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Covers reports whether a budget that limits time or runs, which the ledger does not know of each agent, is of an
// agent.
func (m *Manager) Covers(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.budgets, func(b spec.Budget) bool {
		return (b.Time > 0 || b.Runs > 0) && b.Covers(path)
	})
}

// Admit returns nil if an incarnation of an agent may start now. Otherwise the error wraps a supervisor.RetryError.
func (m *Manager) Admit(path string, incarnation uint64) error {
	account, now := m.Account(path), time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if no := m.refuses(path, account, now); no != nil {
		return m.wait(path, no)
	}
	m.waiting.Remove(path)
	delete(m.stops, path)
	m.put(&run{path: path, incarnation: incarnation, account: account, began: now})
	return nil
}

// WaitError says for which budget an agent waits. It is the cause of a supervisor.RetryError.
type WaitError struct{ Text string }

func (e *WaitError) Error() string { return e.Text }

// recheck is the pause after which an agent asks again that waits for a person. It is told earlier.
const recheck = 24 * time.Hour

// wait notes that an agent waits, and returns the error that says so. Needs mu.
func (m *Manager) wait(path string, no *refusal) error {
	m.waiting.Add(path, no.budgets...)
	return &supervisor.RetryError{At: no.at(time.Now()), Err: &WaitError{no.String()}}
}

func (no *refusal) at(now time.Time) time.Time {
	if no.until.IsZero() {
		return now.Add(recheck)
	}
	return no.until
}

func (no *refusal) String() string {
	until := "a person has acted: "
	if !no.until.IsZero() {
		until = no.until.Format("15:04") + ", or: "
	}
	return fmt.Sprintf("%s; waits until %scoppice budget raise %s", no.why, until, no.budgets[0])
}

// Begin takes note of an incarnation that runs. stop ends it at once, and reports whether it runs.
func (m *Manager) Begin(path string, incarnation uint64, began time.Time, stop func(error) bool) {
	account := m.Account(path)
	m.mu.Lock()
	r := m.runs[path]
	if r == nil || r.incarnation != incarnation {
		r = &run{path: path, incarnation: incarnation, account: account, began: time.Now()}
		m.put(r)
	}
	if r.stop = stop; !began.IsZero() {
		r.began = began
	}
	m.use(r, account, cost.Sum{})
	m.mu.Unlock()
	m.Look()
}

// Progress takes note of what a run in progress has used so far.
func (m *Manager) Progress(path string, incarnation uint64, r agentcli.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	used, err := m.Ledger.Progress(ctx, path, incarnation, r)
	if err != nil {
		m.Logger.Warn("cannot estimate what a run has used", "path", path, "error", err)
		return
	}
	m.mu.Lock()
	if now := m.runs[path]; now != nil && now.incarnation == incarnation && now.ended.IsZero() {
		m.use(now, now.account, used)
	}
	m.mu.Unlock()
	m.check()
}

// readTime bounds how long the ledger may take.
const readTime = 10 * time.Second

// Counted takes note that the ledger has counted more of an agent. It is cost.Options.Counted.
func (m *Manager) Counted(ctx context.Context, path string, incarnation uint64) {
	id := m.Tasks().Worked(path, incarnation)
	m.reading.Lock()
	defer m.reading.Unlock()
	now := time.Now()
	day, err := m.Ledger.Day(ctx, path, now)
	if err != nil {
		m.Logger.Warn("cannot read what was counted for budgets", "path", path, "error", err)
		return
	}
	m.readTask(ctx, id)
	m.mu.Lock()
	m.begin(now)
	if m.date == dateOf(now) {
		m.count(path, day)
	}
	if r := m.runs[path]; r != nil && r.incarnation == incarnation {
		m.drop(path)
	}
	m.mu.Unlock()
	m.check()
}

// Ended takes note that an incarnation has ended, or could not start. What it has used counts until the ledger has it.
func (m *Manager) Ended(path string, incarnation uint64) {
	m.mu.Lock()
	if r := m.runs[path]; r != nil && r.incarnation == incarnation {
		if r.stop == nil { // it has not begun
			m.drop(path)
		} else if r.ended.IsZero() {
			r.ended = time.Now()
		}
	}
	m.mu.Unlock()
	m.Look()
}

// readTask reads what is counted of a task, if that is needed.
func (m *Manager) readTask(ctx context.Context, id string) {
	if id == "" || !m.has(spec.PerTask) {
		return
	}
	sum, err := m.Ledger.OfTask(ctx, id)
	if err != nil {
		m.Logger.Warn("cannot read what was counted of a task", "task", id, "error", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tasks[id] = sum
}

// has reports whether there is a budget per day, run or task.
func (m *Manager) has(per spec.Period) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.budgets, func(b spec.Budget) bool { return b.Per == per })
}

// findTasks finds out at which tasks runs work, and forgets what is known of others.
func (m *Manager) findTasks(ctx context.Context) {
	if !m.has(spec.PerTask) {
		return
	}
	m.mu.Lock()
	incarnations := map[string]uint64{}
	for path, r := range m.runs {
		incarnations[path] = r.incarnation
	}
	m.mu.Unlock()
	works := map[string]string{}
	m.reading.Lock()
	defer m.reading.Unlock()
	known := map[string]bool{}
	for path, incarnation := range incarnations {
		if id := m.Tasks().Worked(path, incarnation); id != "" {
			works[path] = id
			if !known[id] {
				known[id] = true
				m.readTask(ctx, id)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, r := range m.runs {
		if r.incarnation == incarnations[path] {
			r.task = works[path]
		}
	}
	for id := range m.tasks {
		if !known[id] {
			delete(m.tasks, id)
		}
	}
}
