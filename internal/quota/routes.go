package quota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// Routes for quotas.
var (
	// List returns the quotas that are not open.
	List = api.Route[api.None, []Info]{
		Method: "GET", Path: "/quotas", For: api.People,
		ID: "listQuotas", Summary: "List the quotas that are not open",
		Doc:     "Accounts of language models whose agents wait, by name.",
		Returns: "The quotas.",
	}
	// Resume lets an agent of a quota try now.
	Resume = api.Route[ResumeRequest, api.None]{
		Method: "POST", Path: "/quotas/resume", For: api.People,
		ID: "resumeQuota", Summary: "Let an agent of a quota try now",
		Doc: "One of the agents that wait tries first. If it is served, the others follow.",
	}
)

// Info is a quota that is not open.
type Info struct {
	_         struct{}  `schema:"Quota" doc:"An account of a language model whose agents wait."`
	Name      string    `json:"name" doc:"A command line, or the path of an agent whose command line is not known."`
	State     State     `json:"state" enum:"parked,probing,stopped" doc:"Parked until a time; probing: an agent tries first; stopped until a person acts."`
	Obstacle  string    `json:"obstacle" doc:"What has closed it: usage_limit, authentication or billing."`
	Reason    string    `json:"reason" doc:"What was reported."`
	Agent     string    `json:"agent" doc:"The agent that has met it."`
	Since     time.Time `json:"since" doc:"When it was closed."`
	Until     time.Time `json:"until,omitzero" doc:"When an agent may try."`
	Reset     time.Time `json:"reset,omitzero" doc:"When the limit ends, if that was reported."`
	ResetFrom string    `json:"reset_from,omitempty" doc:"Where that was reported."`
	Tries     int       `json:"tries,omitempty" doc:"Tries in vain since it was closed."`
	First     string    `json:"first,omitempty" doc:"The agent that tries first."`
	Waiting   []string  `json:"waiting" doc:"The agents that wait for it."`
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
	List.Handle(s, func(context.Context, token.Caller, api.None) ([]Info, error) { return m.Pools(), nil })
}

// Pools returns the pools that are not open, by name.
func (m *Manager) Pools() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Info{}
	for _, p := range m.pools {
		if p.State == Open {
			continue
		}
		from := ""
		if !p.Reset.IsZero() {
			from = fmt.Sprintf("reported by %s in its %s", reporter(*p), p.ResetFrom)
		}
		i := Info{
			Name: p.Name, State: p.State, Obstacle: string(p.Obstacle), Reason: p.Reason, Agent: p.By, Since: p.Since,
			Until: p.Until, Reset: p.Reset, ResetFrom: from, Tries: p.Tries, First: p.Canary,
			Waiting: []string{},
		}
		for path, name := range m.waiting {
			if name == p.Name {
				i.Waiting = append(i.Waiting, path)
			}
		}
		slices.Sort(i.Waiting)
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Resume lets an agent of a pool try now.
func (m *Manager) Resume(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[name]
	if p == nil || p.State == Open {
		return fmt.Errorf("%w: %.100q", ErrNotFound, name)
	}
	before := *p
	if p.resume(time.Now()) {
		m.changed(before, p)
	}
	return nil
}
