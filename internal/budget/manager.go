package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/waitlist"
	"github.com/coppice-dev/coppice/supervisor"
)

// Fleet has the agents and budgets that are declared at one moment.
type Fleet struct {
	Agents  map[string]*spec.Agent // by path; not to be changed
	Budgets []spec.Budget
}

// Agents gives budgets access to the agents of the fleet.
type Agents interface {
	// Budgeted returns what is declared now.
	Budgeted() Fleet
	// Locate returns the supervisor of an agent and its ID there.
	Locate(path string) (*supervisor.Supervisor, string, error)
}

// Ledger has what is counted. *cost.Ledger implements it.
type Ledger interface {
	Days(ctx context.Context, at time.Time) (map[string]map[string]cost.Sum, error)
	Day(ctx context.Context, path string, at time.Time) (map[string]cost.Sum, error)
	OfTask(ctx context.Context, id string) (cost.Sum, error)
	Progress(ctx context.Context, path string, incarnation uint64, r agentcli.Record) (cost.Sum, error)
}

// Tasks are the tasks that agents work at.
type Tasks interface {
	// Worked returns the ID of the task that an incarnation works at, or has worked at; empty if it is not known.
	Worked(path string, incarnation uint64) string
	// Claims reports whether an agent has claimed a task now.
	Claims(ctx context.Context, path, id string) bool
	// Unpark opens a task again that is parked.
	Unpark(ctx context.Context, id, reason string) error
}

// Options connect a Manager with the rest of the daemon.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	Agents Agents
	Ledger Ledger
	// Tasks returns the tasks, once they are read.
	Tasks func() Tasks
	// Account returns the name of the account that an agent uses.
	Account func(path string) string
	// Changed is called when a budget is reached or opened, so that its question is asked or withdrawn.
	Changed func()
	// Go runs a function in the background, with a context that ends with the daemon.
	Go func(func(context.Context))
}

// Manager has the budgets of a project. New makes it.
type Manager struct {
	Options
	waiting waitlist.List // for budgets
	look    chan struct{} // holds a token when a time may have changed
	reading sync.Mutex    // so that what was read last is noted last

	mu sync.Mutex
	state
	stops map[string]stop // by path
}

// stop is that a budget has ended an incarnation.
type stop struct {
	incarnation uint64
	why         string
}

// prefix of the records of budgets in the store.
const prefix = "budget"

func key(name string) string { return prefix + "/" + name }

// New returns a Manager without budgets; see Load.
func New(o Options) *Manager {
	return &Manager{
		Options: o, waiting: waitlist.List{Locate: o.Agents.Locate, Go: o.Go}, look: make(chan struct{}, 1),
		state: newState(), stops: map[string]stop{},
	}
}

// Load reads what is stored of budgets, and what is counted today. Call it before the first agent starts.
func (m *Manager) Load(ctx context.Context) error {
	records, _, err := m.Store.Snapshot(ctx, prefix)
	if err != nil {
		return fmt.Errorf("reading budgets: %w", err)
	}
	now := time.Now()
	counted, err := m.Ledger.Days(ctx, now)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		var rec record
		if err := json.Unmarshal(r.Value, &rec); err != nil || rec.Name == "" {
			m.Logger.Warn("cannot read the record of a budget", "key", r.Key, "error", err)
			continue
		}
		m.records[rec.Name] = &rec
	}
	m.begin(now)
	m.counted = counted // before the totals are known
	m.declare(m.Agents.Budgeted().Budgets)
	return nil
}

// Run watches the limits of time and the end of the day until the context ends.
func (m *Manager) Run(ctx context.Context) {
	for {
		m.findTasks(ctx)
		next := m.check()
		select {
		case <-m.look:
		case <-time.After(min(time.Until(next), longestLook)):
		case <-ctx.Done():
			return
		}
	}
}

// longestLook is the longest time between two looks at the clock, which may be set.
const longestLook = 10 * time.Minute

// Look has times and tasks looked at again soon: an agent has claimed a task, for example.
func (m *Manager) Look() {
	select {
	case m.look <- struct{}{}:
	default:
	}
}

// check acts on what is used now, and returns when to look again.
func (m *Manager) check() time.Time {
	now := time.Now()
	m.mu.Lock()
	d := m.decide(now)
	for name := range d.changed {
		typ, message := event.BudgetOpened, "budget "+name+" has room again"
		switch why := d.reached[name]; {
		case why != "":
			typ, message = event.BudgetReached, why
		case !slices.Contains(d.opened, name):
			typ = ""
		}
		m.save(name, typ, message)
	}
	for _, name := range d.opened {
		m.waiting.Start(m.waiting.For(name), true)
	}
	for _, r := range d.stop {
		m.stops[r.path] = stop{r.incarnation, r.stopped}
	}
	next := m.next(now)
	m.mu.Unlock()
	for _, r := range d.stop {
		r.stop(&WaitError{r.stopped})
	}
	if len(d.reached)+len(d.opened) > 0 {
		m.Changed()
	}
	return next
}

// save stores the record of a budget, with an event unless its type is empty. Needs mu.
func (m *Manager) save(name string, typ event.Type, message string) {
	rec := m.record(name)
	op := store.Op{Kind: store.Delete, Key: key(name)}
	if !rec.Since.IsZero() || rec.Raised > 0 || len(rec.Agents)+len(rec.Tasks) > 0 {
		value, err := json.Marshal(rec)
		if err != nil {
			m.Logger.Error("cannot encode the record of a budget", "budget", name, "error", err)
			return
		}
		op = store.Op{Kind: store.Put, Key: key(name), Value: value}
	}
	if typ == "" {
		m.write([]store.Op{op})
		return
	}
	m.Log.Append(event.Event{Type: typ, Actor: "controller", Message: message}.With(m.data(name)), op)
}

// data describes a budget in an event. Needs mu.
func (m *Manager) data(name string) event.Budget {
	rec := m.record(name)
	data := event.Budget{Budget: name, Raised: rec.raised(m.date)}
	for i := range m.budgets {
		if b := &m.budgets[i]; b.Name == name {
			data.Per, data.Used = string(b.Per), texts(m.measuresOf(b, time.Now()))
		}
	}
	data.Agents, data.Tasks = slices.Sorted(maps.Keys(rec.Agents)), rec.parkedTasks()
	return data
}

// write writes to the store in the background.
func (m *Manager) write(ops []store.Op) {
	m.Go(func(ctx context.Context) {
		if _, err := m.Store.Apply(ctx, store.Fence{}, nil, ops); err != nil && ctx.Err() == nil {
			m.Logger.Warn("cannot store what is known of budgets", "error", err)
		}
	})
}

// Apply takes note of the budgets that are declared now, and starts agents that wait and may start. Call it when the
// fleet has changed.
func (m *Manager) Apply() {
	fleet := m.Agents.Budgeted()
	m.mu.Lock()
	m.declare(fleet.Budgets)
	gone, changed := m.forget(func(path string) bool { return fleet.Agents[path] != nil })
	var ops []store.Op
	for _, name := range gone {
		ops = append(ops, store.Op{Kind: store.Delete, Key: key(name)})
	}
	if len(ops) > 0 {
		m.write(ops)
	}
	for _, name := range changed {
		m.save(name, "", "")
	}
	m.mu.Unlock()
	m.check()
	var may []string
	for _, path := range m.waiting.Paths() {
		account := m.Account(path)
		m.mu.Lock()
		no := m.refuses(path, account, time.Now())
		m.mu.Unlock()
		switch {
		case fleet.Agents[path] == nil:
			m.waiting.Remove(path)
		case no == nil:
			may = append(may, path)
		default:
			m.waiting.Add(path, no.budgets...)
		}
	}
	m.waiting.Start(may, true)
	if len(gone) > 0 {
		m.Changed()
	}
	m.Look()
}
