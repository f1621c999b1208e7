package pool

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/token"
)

// Patrol compares what runs with what is wanted, pools included, now instead of when something happens
// or its interval is over, and returns what there is to do. It does not wait for what it does.
var Patrol = api.Route[PatrolRequest, Round]{
	Method: "POST", Path: "/patrol", For: api.People,
	ID: "patrol", Summary: "Compare what runs with what is wanted, now",
	Doc: "The daemon does so by itself when something happens and when its interval is over. The answer does not " +
		"wait for what is done.",
	Returns: "What there is to do.",
}

// PatrolRequest says whether anything is done.
type PatrolRequest struct {
	_      struct{} `open:"true" doc:"What to do about it."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only say what there is to do."`
}

// Round is what there is to do.
type Round struct {
	_       struct{}      `open:"true" doc:"What there is to do so that what runs is what is wanted."`
	Actions []RoundAction `json:"actions" doc:"In order."`
	Delays  []RoundDelay  `json:"delays" doc:"What waits."`
	Pools   []At          `json:"pools" doc:"All pools, and what their checks have said last."`
}

// RoundAction is something that a round does.
type RoundAction struct {
	_      struct{} `open:"true" doc:"Something to do."`
	Action string   `json:"action" doc:"stop, suspend, start, renew (stop and start again) or drain (ask to finish, and renew then; an instance that its pool does not want is stopped then). Readers must expect others."`
	Path   string   `json:"path" doc:"Of an agent or supervisor."`
	Cause  string   `json:"cause,omitempty" doc:"Of a renewal: restart requested or drifted. Readers must expect others."`
	Fields []string `json:"fields,omitempty" doc:"That have drifted, such as env.MODEL."`
	Reason string   `json:"reason" doc:"Why, for people."`
}

// RoundDelay is something that would be done, and waits.
type RoundDelay struct {
	_     struct{}   `open:"true" doc:"Something that would be done, and waits."`
	Path  string     `json:"path" doc:"Of an agent or supervisor."`
	For   string     `json:"for,omitempty" doc:"What has to be ready first."`
	Until *time.Time `json:"until,omitempty" doc:"When its limit lets it be started once more."`
	Cause string     `json:"cause,omitempty" doc:"Of a renewal, as of an action."`
}

// newRound returns what a plan and the pools say that there is to do.
func newRound(res reconcile.Result, pools []At) Round {
	r := Round{Actions: []RoundAction{}, Delays: []RoundDelay{}, Pools: pools}
	for _, a := range res.Actions {
		r.Actions = append(r.Actions, RoundAction{
			Action: a.Kind.String(), Path: a.Path, Cause: a.Cause.String(), Fields: a.Fields, Reason: a.Reason,
		})
	}
	for _, d := range res.Delays {
		shown := RoundDelay{Path: d.Path, For: d.For, Cause: d.Cause.String()}
		if !d.Until.IsZero() {
			shown.Until = &d.Until
		}
		r.Delays = append(r.Delays, shown)
	}
	return r
}

// scanTimeout bounds the wait of a client for a look at what the loop does not observe by itself.
const scanTimeout = 5 * time.Second

// Reconciler is what a Patroller needs of reconciliation.
type Reconciler interface {
	// Scan looks for what a plan depends on and that is not observed all the time: orphans and the
	// content of files. The plan is made without what ctx ends.
	Scan(ctx context.Context)
	Plan() reconcile.Result
	Enqueue() // requests a pass
}

// Patroller makes rounds on request.
type Patroller struct {
	Pools      *Manager
	Reconciler Reconciler
}

// Patrol makes a round. With dry, nothing is done.
func (p Patroller) Patrol(ctx context.Context, dry bool) (Round, error) {
	select {
	case <-p.Pools.Stopping:
		return Round{}, api.ErrStopping
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
	return newRound(res, p.Pools.All()), nil
}

// Register has a server answer requests for rounds.
func (p Patroller) Register(s *api.Server) {
	Patrol.Handle(s, func(ctx context.Context, _ token.Caller, r PatrolRequest) (Round, error) {
		return p.Patrol(ctx, r.DryRun)
	})
}
