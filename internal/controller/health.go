package controller

import (
	"context"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/token"
)

// newHealth returns the monitor of the agents of a controller.
func newHealth(c *Controller) *health.Monitor {
	return health.New(health.Options{
		Fleet:     healthFleet{c},
		Append:    func(e event.Event) { c.log.Append(e) },
		Reconcile: c.loop.Enqueue,
		Go:        c.background.run,
		Programs:  machines{c}.programs,
		Logger:    c.opts.Logger,
	})
}

// interval is the time between two looks at the programs behind the wrappers of agents.
func (f healthFleet) interval() time.Duration { return f.c.fleet().Patrol.Interval }

// amend applies the changed specification of an agent that runs, without a restart.
func (f healthFleet) amend(path string) {
	if a := f.c.fleet().Agents[path]; a != nil {
		f.c.health.Update(path, a)
	}
}

// healthFleet implements health.Fleet.
type healthFleet struct{ c *Controller }

func (f healthFleet) Spec(path string) *spec.Agent { return f.c.fleet().Agents[path] }

func (f healthFleet) HasQuestion(who token.Caller) bool {
	return slices.ContainsFunc(f.c.questions.List(who.Path, false), func(q question.Question) bool {
		return q.Incarnation == who.Incarnation
	})
}

func (f healthFleet) Draining(path string) bool { return f.c.drains.Has(path) }

func (f healthFleet) Ready(ctx context.Context, who token.Caller) error {
	home := f.c.agents.Home(who.Path)
	if home == nil {
		return token.Stale(who)
	}
	return home.Ready(ctx, who.Path, who.Incarnation)
}

func (f healthFleet) Run(
	ctx context.Context, a *spec.Agent, o runtime.Observation, argv []string, env ...string,
) ([]string, error) {
	return f.c.agents.RunCommand(ctx, a, token.Caller{Path: o.Path, Incarnation: o.Incarnation}, argv, env...)
}
