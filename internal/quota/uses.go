package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// usePrefix is the prefix of the records of agents that use another account than their own.
const usePrefix = "quota/agent/"

// use is such a record.
type use struct {
	Path    string `json:"path"`
	Account string `json:"account"`
}

func useKey(path string) string { return usePrefix + store.PathKey(path) }

// EnvAccount is the variable with the name of the account that an agent uses, if it is declared.
const EnvAccount = proc.EnvPrefix + "ACCOUNT"

// loadUses reads which accounts agents use. Needs mu.
func (m *Manager) loadUses(ctx context.Context) error {
	records, _, err := m.Store.Snapshot(ctx, strings.TrimSuffix(usePrefix, "/"))
	if err != nil {
		return fmt.Errorf("reading the accounts of agents: %w", err)
	}
	for _, r := range records {
		var u use
		if err := json.Unmarshal(r.Value, &u); err != nil || u.Path == "" {
			m.Logger.Warn("cannot read the account of an agent", "key", r.Key, "error", err)
			continue
		}
		m.uses[u.Path] = u.Account
	}
	return nil
}

// used returns the account of the last start of an agent, or else its own.
func (m *Manager) used(path string) string {
	if name, ok := m.uses[path]; ok {
		return name
	}
	return m.Agents.Fleet().accounts(path)[0]
}

// use notes that an agent starts with one of its accounts. Needs mu.
func (m *Manager) use(path string, accounts []*Pool, name string) {
	last := m.uses[path]
	if m.uses[path] = name; last == "" {
		last = accounts[0].Name
	}
	fleet := m.Agents.Fleet()
	if last == name || fleet.quota(name) == nil {
		return
	}
	op := store.Op{Kind: store.Delete, Key: useKey(path)}
	if name != accounts[0].Name {
		value, err := json.Marshal(use{path, name})
		if err != nil { // two strings
			value = []byte("{}")
		}
		op = store.Op{Kind: store.Put, Key: op.Key, Value: value}
	}
	why := "it is no longer an account of the agent"
	if p := m.pools[last]; p != nil && slices.Contains(accounts, p) {
		if why = p.what(); !p.Reset.IsZero() {
			why += "; it resets at " + clock(p.Reset)
		}
	}
	m.Log.Append(event.Event{
		Type: event.QuotaSwitched, Path: path, Actor: "controller",
		Message: fmt.Sprintf("%s goes on with account %s instead of %s: %s", path, name, last, why),
	}.With(event.Switch{From: last, To: name, Reason: why}), op)
}

// AccountOf returns the name of the account that an agent uses, or used last. It is empty if that is not known, as for
// an agent whose command is a script.
func (m *Manager) AccountOf(path string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name := m.used(path); name != path {
		return name
	}
	return ""
}

// Explain says which account an agent uses, if it is declared, and whether claude is asked about it.
func (m *Manager) Explain(path string) string {
	name, fleet := m.AccountOf(path), m.Agents.Fleet()
	accounts := fleet.accounts(path)
	switch {
	case m.isAsking(name):
		return "claude is asked what is left of account " + name
	case fleet.quota(name) == nil:
		return ""
	case name != accounts[0]:
		return fmt.Sprintf("it uses the account %s instead of %s", name, accounts[0])
	case len(accounts) > 1:
		return fmt.Sprintf("it uses the account %s; when that is used up, %s", name, accounts[1])
	}
	return "it uses the account " + name
}

// Environ returns the environment of an incarnation with the variables of the account that it uses.
func (m *Manager) Environ(path string, env []string) ([]string, error) {
	m.mu.Lock()
	name := m.used(path)
	m.mu.Unlock()
	return m.AccountEnviron(name, env)
}

// AccountEnviron returns an environment with the variables of an account.
func (m *Manager) AccountEnviron(name string, env []string) ([]string, error) {
	q := m.Agents.Fleet().quota(name)
	if q == nil {
		return env, nil
	}
	more, err := variables(q)
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := more[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(more)) {
		env = append(env, name+"="+more[name])
	}
	return env, err
}

// variables returns the variables of an account, with what is in its files now. If a file cannot be read, they are
// without it, and the error says so.
func variables(q *spec.Quota) (map[string]string, error) {
	all := map[string]string{}
	var failed error
	for _, file := range q.EnvFiles {
		more, err := envfile.Read(file)
		if err != nil && failed == nil {
			failed = fmt.Errorf("quota %s: env_file: %w", q.Name, err)
		}
		maps.Copy(all, more)
	}
	maps.Copy(all, q.Env)
	all[EnvAccount] = q.Name
	return all, failed
}

// Apply drops what is known of accounts and agents that are no longer declared, and starts agents that wait for an
// account and may use another one now. Call it when the fleet has changed.
func (m *Manager) Apply() {
	m.mu.Lock()
	defer m.mu.Unlock()
	fleet := m.Agents.Fleet()
	var gone []store.Op
	for name := range m.pools {
		if !fleet.exists(name) {
			delete(m.pools, name)
			gone = append(gone, store.Op{Kind: store.Delete, Key: key(name)})
		}
	}
	for name := range m.left {
		if !fleet.exists(name) || strings.Contains(name, "/") && fleet.Agents[name] == nil {
			delete(m.left, name)
		}
	}
	for path, name := range m.uses {
		if fleet.Agents[path] == nil {
			delete(m.uses, path)
		}
		if fleet.Agents[path] == nil || !fleet.exists(name) {
			gone = append(gone, store.Op{Kind: store.Delete, Key: useKey(path)})
		}
	}
	if len(gone) > 0 {
		m.Go(func(ctx context.Context) {
			if _, err := m.Store.Apply(ctx, store.Fence{}, nil, gone); err != nil && ctx.Err() == nil {
				m.Logger.Warn("cannot remove what is known of accounts", "error", err)
			}
		})
		m.Changed()
	}
	var may []string
	for _, path := range m.waiting.Paths() {
		accounts, _, _, ok := m.choose(path, time.Now())
		switch {
		case fleet.Agents[path] == nil:
			m.waiting.Remove(path)
		case ok:
			may = append(may, path)
		default:
			m.wait(path, accounts)
		}
	}
	m.waiting.Start(may, true)
}
