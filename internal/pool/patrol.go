package pool

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/token"
)

// Patrol reconciles at once, including pools, and returns the planned actions. It does not wait for
// their end.
var Patrol = api.Route[PatrolRequest, Pass]{
	Method: "POST", Path: "/patrol", For: api.People,
	ID: "patrol", Summary: "Reconcile now",
	Doc: "The daemon also reconciles on its own, after changes and at its interval. The answer does not wait for the " +
		"end of the actions.",
	Returns: "The planned actions.",
}

// PatrolRequest selects whether the plan is carried out.
type PatrolRequest struct {
	_      struct{} `open:"true" doc:"How to reconcile."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only return the plan, and take no action."`
}

// Pass is the result of a patrol.
type Pass struct {
	_       struct{}     `open:"true" doc:"The plan of a reconciliation."`
	Actions []PassAction `json:"actions" doc:"The actions, in order."`
	Delays  []PassDelay  `json:"delays" doc:"Actions that have to wait."`
	Pools   []At         `json:"pools" doc:"All pools, with the last answers of their checks."`
}

// PassAction is one planned action.
type PassAction struct {
	_      struct{} `open:"true" doc:"A planned action."`
	Action string   `json:"action" doc:"stop, suspend, start, renew (restart) or drain (drain, then restart, or stop an instance that its pool does not want). Readers must expect others."`
	Path   string   `json:"path" doc:"An agent or supervisor."`
	Cause  string   `json:"cause,omitempty" doc:"The cause of a restart: restart requested or drifted. Readers must expect others."`
	Fields []string `json:"fields,omitempty" doc:"The fields that have drifted, such as env.MODEL."`
	Reason string   `json:"reason" doc:"The reason, for people."`
}

// PassDelay is an action that has to wait.
type PassDelay struct {
	_     struct{}   `open:"true" doc:"An action that has to wait."`
	Path  string     `json:"path" doc:"An agent or supervisor."`
	For   string     `json:"for,omitempty" doc:"The agents that must be ready first."`
	Until *time.Time `json:"until,omitempty" doc:"When its limit permits another start."`
	Cause string     `json:"cause,omitempty" doc:"The cause, as in an action."`
}

// newPass returns a plan and the pools as the API shows them.
func newPass(res reconcile.Result, pools []At) Pass {
	r := Pass{Actions: []PassAction{}, Delays: []PassDelay{}, Pools: pools}
	for _, a := range res.Actions {
		r.Actions = append(r.Actions, PassAction{
			Action: a.Kind.String(), Path: a.Path, Cause: a.Cause.String(), Fields: a.Fields, Reason: a.Reason,
		})
	}
	for _, d := range res.Delays {
		shown := PassDelay{Path: d.Path, For: d.For, Cause: d.Cause.String()}
		if !d.Until.IsZero() {
			shown.Until = &d.Until
		}
		r.Delays = append(r.Delays, shown)
	}
	return r
}

// scanTimeout bounds Reconciler.Scan, for which a client waits.
const scanTimeout = 5 * time.Second

// Reconciler is the part of reconciliation that a Patroller needs.
type Reconciler interface {
	// Scan looks for orphans and changed files, which are not observed all the time. The plan
	// ignores whatever is not found before ctx ends.
	Scan(ctx context.Context)
	Plan() reconcile.Result
	Enqueue() // requests a pass
}

// Patroller serves the route Patrol.
type Patroller struct {
	Pools      *Manager
	Reconciler Reconciler
}

// Patrol plans, and requests a reconciliation and all checks unless dry is set.
func (p Patroller) Patrol(ctx context.Context, dry bool) (Pass, error) {
	select {
	case <-p.Pools.Stopping:
		return Pass{}, api.ErrStopping
	default:
	}
	look, cancel := context.WithTimeout(ctx, scanTimeout)
	p.Reconciler.Scan(look)
	cancel()
	res := p.Reconciler.Plan()
	if !dry {
		p.Reconciler.Enqueue()
		p.Pools.CheckAll()
	}
	return newPass(res, p.Pools.All()), nil
}

// Register adds the handler of the route to a server.
func (p Patroller) Register(s *api.Server) {
	Patrol.Handle(s, func(ctx context.Context, _ token.Caller, r PatrolRequest) (Pass, error) {
		return p.Patrol(ctx, r.DryRun)
	})
}
