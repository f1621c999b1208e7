package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// Routes for quotas.
var (
	// List returns the quotas that are declared, not open, or whose use is known.
	List = api.Route[api.None, []Info]{
		Method: "GET", Path: "/quotas", For: api.People,
		ID: "listQuotas", Summary: "List the quotas that are declared, not open, or whose use is known",
		Doc: "Accounts of language models: those that are declared, in their order, then others whose agents wait, " +
			"or of which it is known what is left.",
		Returns: "The quotas.",
	}
	// Resume lets an agent of a quota try now.
	Resume = api.Route[ResumeRequest, api.None]{
		Method: "POST", Path: "/quotas/resume", For: api.People,
		ID: "resumeQuota", Summary: "Let an agent of a quota try now",
		Doc: "One of the agents that wait tries first. If it is served, the others follow.",
	}
)

// Info is a quota.
type Info struct {
	_         struct{}  `schema:"Quota" doc:"An account of a language model."`
	Name      string    `json:"name" doc:"Its name in the file; without one, a command line, or the path of an agent whose command line is not known."`
	CLI       string    `json:"cli,omitempty" doc:"The command line of its agents, if it is declared."`
	Next      string    `json:"next,omitempty" doc:"The quota that its agents go on with when it is used up."`
	State     State     `json:"state" enum:"open,parked,probing,stopped" doc:"Open; parked until a time; probing: an agent tries first; stopped until a person acts."`
	Obstacle  string    `json:"obstacle,omitempty" doc:"What has closed it: usage_limit, authentication or billing."`
	Reason    string    `json:"reason,omitempty" doc:"What was reported."`
	Agent     string    `json:"agent,omitempty" doc:"The agent that has met it."`
	Since     time.Time `json:"since,omitzero" doc:"When it was closed."`
	Until     time.Time `json:"until,omitzero" doc:"When an agent may try."`
	Reset     time.Time `json:"reset,omitzero" doc:"When the limit ends, if that was reported."`
	ResetFrom string    `json:"reset_from,omitempty" doc:"Where that was reported."`
	Tries     int       `json:"tries,omitempty" doc:"Tries in vain since it was closed."`
	First     string    `json:"first,omitempty" doc:"The agent that tries first."`
	BeforeRun bool      `json:"before_run,omitempty" doc:"It was told before a run: no agent has met it."`
	Waiting   []string  `json:"waiting" doc:"The agents that wait for it, or for another of their quotas."`
	Agents    []string  `json:"agents" doc:"The agents that use it, or used it last."`
	Used      []Window  `json:"used" doc:"The limits of which the use is known."`
	Told      time.Time `json:"told,omitzero" doc:"When the command line told that last."`
}

// Window is a limit of a quota.
type Window struct {
	_     struct{}  `schema:"QuotaWindow" doc:"A limit of a quota."`
	Name  string    `json:"name" doc:"As its command line calls it, such as five_hour or seven_day_opus."`
	Used  float64   `json:"used" minimum:"0" maximum:"1" doc:"The share that is used, from 0 to 1."`
	Reset time.Time `json:"reset" doc:"When it resets."`
}

// ResumeRequest names a quota.
type ResumeRequest struct {
	_    struct{} `schema:"QuotaResumeRequest" doc:"A quota."`
	Name string   `json:"name" maxLength:"1024" doc:"Its name."`
}

// ErrNotFound means that there is no such quota, or that it is open.
var ErrNotFound = api.NewError(api.ErrNotFound, "no such quota is closed")

// Register adds the handlers of all routes to a server.
func (m *Manager) Register(s *api.Server) {
	m.RegisterReadOnly(s)
	Resume.Handle(s, func(_ context.Context, _ token.Caller, req ResumeRequest) (api.None, error) {
		return api.None{}, m.Resume(req.Name)
	})
}

// RegisterReadOnly adds the handlers that work without a daemon.
func (m *Manager) RegisterReadOnly(s *api.Server) {
	List.Handle(s, func(context.Context, token.Caller, api.None) ([]Info, error) { return m.All(), nil })
}

// Pools returns the pools that are not open, by name, without the agents that use them.
func (m *Manager) Pools() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Info{}
	fleet := m.Agents.Fleet()
	for _, name := range slices.Sorted(maps.Keys(m.pools)) {
		if p := m.pools[name]; p.State != Open && fleet.exists(name) {
			all = append(all, m.info(p, fleet.quota(name)))
		}
	}
	return all
}

// All returns the pools that are declared, in their order, and then the others that are not open, or of which it is
// known what is left, by name.
func (m *Manager) All() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	fleet := m.Agents.Fleet()
	all := []Info{}
	for i := range fleet.Quotas {
		q := &fleet.Quotas[i]
		all = append(all, m.info(m.pool(q.Name), q))
	}
	names := map[string]bool{}
	for name, p := range m.pools {
		if p.State != Open {
			names[name] = true
		}
	}
	for name, l := range m.left {
		if len(l.used(time.Now())) > 0 {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if fleet.quota(name) == nil && fleet.exists(name) {
			all = append(all, m.info(m.pool(name), nil))
		}
	}
	if len(all) == 0 {
		return all
	}
	users := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(fleet.Agents)) {
		name := m.used(path)
		users[name] = append(users[name], path)
	}
	for i := range all {
		all[i].Agents = append(all[i].Agents, users[all[i].Name]...)
	}
	return all
}

// info describes a pool, whose quota is nil if it is not declared. Needs mu.
func (m *Manager) info(p *Pool, q *spec.Quota) Info {
	from := ""
	if !p.Reset.IsZero() {
		if from = "reported by " + p.reporter(); p.ResetFrom != agentcli.FromAccount {
			from += " in its " + string(p.ResetFrom)
		}
	}
	i := Info{
		Name: p.Name, State: p.State, Obstacle: string(p.Obstacle), Reason: p.Reason, Agent: p.By, Since: p.Since,
		Until: p.Until, Reset: p.Reset, ResetFrom: from, Tries: p.Tries, First: p.Canary,
		BeforeRun: p.ResetFrom == agentcli.FromAccount,
		Waiting:   append([]string{}, m.waiting.For(p.Name)...), Agents: []string{},
		Used: m.left[p.Name].used(time.Now()),
	}
	if len(i.Used) > 0 {
		i.Told = m.left[p.Name].told
	}
	if q != nil {
		i.CLI, i.Next = string(q.CLI), q.Next
	}
	return i
}

// Resume lets an agent of a pool try now.
func (m *Manager) Resume(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[name]
	if p == nil || p.State == Open {
		return fmt.Errorf("%w: %.100q", ErrNotFound, name)
	}
	before, now := *p, time.Now()
	if p.resume(now) {
		m.heard(name, now) // a person wants a try, and no question
		m.changed(before, p)
	}
	return nil
}
