package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/limits"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/waitlist"
	"github.com/coppice-dev/coppice/supervisor"
)

// Agents gives pools access to the agents of the fleet.
type Agents interface {
	// Fleet returns what is declared now.
	Fleet() Fleet
	// Locate returns the supervisor of an agent and its ID there.
	Locate(path string) (*supervisor.Supervisor, string, error)
}

// Options connect a Manager with the rest of the daemon.
type Options struct {
	Store  store.Store
	Log    *event.Log
	Logger *slog.Logger
	Agents Agents
	// Changed is called when a pool has changed, so that Ask and Tell are called.
	Changed func()
	// Go runs a function in the background, with a context that ends with the daemon.
	Go func(func(context.Context))
	// AskAccount asks what is left of an account by a command of package limits, in the environment of an agent.
	AskAccount func(ctx context.Context, path, account string, argv []string) (limits.Answer, error)
}

// Manager has the pools of a project. New makes it.
type Manager struct {
	Options
	random  func(time.Duration) time.Duration
	waiting waitlist.List // for pools
	asks    chan struct{} // has room for the questions that may be under way

	mu    sync.Mutex
	pools map[string]*Pool  // that are not open
	uses  map[string]string // account of the last start, by path
	left  map[string]*left  // by account
}

// prefix of the records of pools in the store.
const prefix = "quota/pool/"

// New returns a Manager without pools; see Load.
func New(o Options) *Manager {
	return &Manager{
		Options: o, pools: map[string]*Pool{}, uses: map[string]string{}, left: map[string]*left{},
		asks:    make(chan struct{}, maxAsks),
		waiting: waitlist.List{Locate: o.Agents.Locate, Go: o.Go},
		random:  func(most time.Duration) time.Duration { return rand.N(most) },
	}
}

// Load reads the pools, and the accounts of agents, that the last daemon has left. Call it before the first agent
// starts.
func (m *Manager) Load(ctx context.Context) error {
	records, _, err := m.Store.Snapshot(ctx, strings.TrimSuffix(prefix, "/"))
	if err != nil {
		return fmt.Errorf("reading quotas: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		var p Pool
		if err := json.Unmarshal(r.Value, &p); err != nil || p.Name == "" {
			m.Logger.Warn("cannot read the record of a quota", "key", r.Key, "error", err)
			continue
		}
		if p.State == Probing { // it is not known how that has ended
			p.State, p.Until = Parked, time.Now()
			p.Canary, p.CanaryAt = "", time.Time{}
		}
		m.pools[p.Name] = &p
	}
	return m.loadUses(ctx)
}

// key returns the key of the record of a pool. Its name may be a path.
func key(name string) string { return prefix + store.PathKey(name) }

// pool returns a pool, which is open if nothing is known of it.
func (m *Manager) pool(name string) *Pool {
	if p := m.pools[name]; p != nil {
		return p
	}
	return &Pool{Name: name, State: Open} // see changed
}

// choose returns the accounts of an agent, and which of them it starts with now; see the function choose.
func (m *Manager) choose(path string, now time.Time) (accounts []*Pool, i int, again time.Time, ok bool) {
	for _, name := range m.Agents.Fleet().accounts(path) {
		accounts = append(accounts, m.pool(name))
	}
	i, again, ok = choose(path, accounts, m.uses[path], now)
	return accounts, i, again, ok
}

// Admit returns nil if an agent may start now, with the account that AccountOf returns then. Otherwise the error
// wraps a supervisor.RetryError. If nothing is known of the account lately, claude is asked first, for at most
// limits.Timeout once it is its turn; if ctx ends meanwhile, the error is its cause.
func (m *Manager) Admit(ctx context.Context, path string) error {
	for {
		answered, err := m.admit(path, time.Now())
		if answered == nil {
			return err
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// admit is Admit where nothing has to be asked. Otherwise it returns a channel that is closed when that was answered.
func (m *Manager) admit(path string, now time.Time) (answered <-chan struct{}, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	accounts, i, again, ok := m.choose(path, now)
	p := accounts[i]
	if !ok {
		m.wait(path, accounts)
		return nil, &supervisor.RetryError{At: again, Err: &WaitError{Pool: *p}}
	}
	if answered := m.ask(path, p, now); answered != nil {
		return answered, nil
	}
	before := *p
	p.admit(path, now)
	m.changed(before, p)
	m.waiting.Remove(path)
	m.use(path, accounts, p.Name)
	if name, at := p.Name, p.CanaryAt; p.Canary == path && at.Equal(now) {
		m.Go(func(ctx context.Context) { m.prove(ctx, name, at) })
	}
	return nil, nil
}

// wait notes that an agent waits for any of some accounts.
func (m *Manager) wait(path string, accounts []*Pool) {
	var names []string
	for _, p := range accounts {
		names = append(names, p.Name)
	}
	m.waiting.Add(path, names...)
}

// prove opens a pool when the agent that goes first has run for long enough.
func (m *Manager) prove(ctx context.Context, name string, began time.Time) {
	select {
	case <-time.After(proof + time.Second):
	case <-ctx.Done():
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[name]
	if p == nil || !p.CanaryAt.Equal(began) {
		return
	}
	before := *p
	if p.proven(time.Now()) {
		m.changed(before, p)
	}
}

// Ended takes note of how a run has ended. If that was for a reason of the account, it returns an error that wraps
// a supervisor.RetryError: the agent is to run again when its pool lets it.
func (m *Manager) Ended(path string, r agentcli.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(m.used(path))
	before := *p
	now := time.Now()
	m.heard(p.Name, now)
	if !r.OfAccount() {
		switch {
		case r.Obstacle == outcome.OtherObstacle: // it was stopped
			p.gone(path, now)
		case r.Kind == outcome.Completed:
			p.completed(path)
		default:
			p.served(path)
		}
		m.changed(before, p)
		return nil
	}
	p.close(path, r, now, m.random)
	if m.Agents.Fleet().exists(p.Name) { // it may have been removed while the agent ran
		m.changed(before, p)
	}
	accounts, i, again, ok := m.choose(path, now)
	if ok && accounts[i].Name != p.Name {
		return &supervisor.RetryError{At: now, Err: &WaitError{Pool: *p, Next: accounts[i].Name}}
	}
	m.wait(path, accounts)
	return &supervisor.RetryError{At: again, Err: &WaitError{Pool: *accounts[i]}}
}

// Gone takes note that an agent was stopped, or has ended without a word.
func (m *Manager) Gone(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting.Remove(path)
	for _, p := range m.pools {
		before := *p
		if p.gone(path, time.Now()) {
			m.changed(before, p)
		}
	}
}

// changed stores a pool that has changed, and starts the agents that waited for it.
func (m *Manager) changed(before Pool, p *Pool) {
	if before == *p {
		return
	}
	ops := []store.Op{{Kind: store.Delete, Key: key(p.Name)}}
	if p.State != Open {
		value, err := json.Marshal(p)
		if err != nil {
			m.Logger.Error("cannot encode a quota", "pool", p.Name, "error", err)
			return
		}
		ops = []store.Op{{Kind: store.Put, Key: key(p.Name), Value: value}}
	}
	m.Log.Append(eventOf(before, *p), ops...)
	if p.State == Open {
		delete(m.pools, p.Name)
	} else {
		m.pools[p.Name] = p
	}
	if p.State == Open || p.State == Parked && !p.Until.After(time.Now()) {
		m.waiting.Start(m.waiting.For(p.Name), p.State == Open)
	}
	m.Changed()
}

// eventOf returns the event of a change of a pool.
func eventOf(before, p Pool) event.Event {
	e := event.Event{Actor: "controller"}
	switch p.State {
	case Stopped:
		e.Type, e.Message = event.QuotaStopped, fmt.Sprintf("quota %s is stopped: %v", p.Name, &WaitError{Pool: p})
	case Probing:
		e.Type, e.Message = event.QuotaProbing, fmt.Sprintf("quota %s: %s tries first", p.Name, p.Canary)
	case Open:
		e.Type, e.Message = event.QuotaOpened, fmt.Sprintf("quota %s is open again", p.Name)
		p = before // tell what has ended
		p.State = Open
	default:
		e.Type, e.Message = event.QuotaParked, fmt.Sprintf("quota %s is parked: %v", p.Name, &WaitError{Pool: p})
	}
	return e.With(event.Quota{Pool: p.Name, State: string(p.State), Obstacle: string(p.Obstacle), Error: p.Reason,
		Agent: p.By, Until: p.Until, Reset: p.Reset, ResetFrom: string(p.ResetFrom)})
}
