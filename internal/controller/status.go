package controller

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store/fenced"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/supervisor"
)

// modelSource is the part of a controller that the read model joins.
type modelSource struct{ c *Controller }

// newStatus returns the model of a running controller.
func newStatus(c *Controller) *status.Model {
	source := modelSource{c}
	return status.New(source.options(), status.Live{
		Version: c.opts.Version, Started: c.started,
		Root: func() *supervisor.Supervisor { return c.root }, RootState: c.rootState, Supervisor: c.tree.Find,
		Unlisted: c.tree.Unlisted, Session: c.agents.Session, AttachCommand: c.agents.AttachCommand,
		Health: c.health, Drains: c.drains, Pools: c.pools, Triggered: source.triggered,
		Waits: c.loop.Waits, Standing: source.standing,
		Resumable: c.control.IsProjectSuspended, LastPass: c.loop.LastPass,
	})
}

// options returns what the model joins with and without a daemon.
func (s modelSource) options() status.Options {
	fleet := machines(s)
	return status.Options{
		Host: s.c.host, HostOf: fleet.hostOf, Logger: s.c.opts.Logger, Fleet: s.fleet, Resolve: s.resolve,
		SuspendedBy: s.c.control.SuspendedBy, Machines: fleet.summaries,
		Questions: s.c.questions, Claims: s.c.claims, Log: s.c.log, Output: s.c.output.Last,
		Suspended: s.c.control.ProjectSuspended, Config: s.config, Store: s.store,
		Orders: func() *order.Counts { return s.c.orders.Counts() }, Quotas: s.c.quotas.Pools,
		Budgets:   s.c.budgets.Budgets,
		Gates:     func() []task.Gate { return s.c.work.Gates() },
		TaskPools: s.c.work.PausedPools, TasksOf: s.c.work.WhyNoTasks,
		Account:  s.c.quotas.Explain,
		Pipeline: s.c.workers.Explain,
		Inbox: func() status.Inbox {
			return status.Inbox{Questions: len(s.c.questions.List("", false)), Mail: s.c.mail.Unread(mail.People),
				Parked: s.c.work.Parked()}
		},
	}
}

// fleet returns the fleet in force as the model sees it.
func (s modelSource) fleet() status.Fleet {
	f := s.c.fleet()
	return status.Fleet{Root: f.Tree.Root, RootPath: f.Tree.Root.Name, Agents: f.Agents, Nodes: f.Nodes, After: f.After}
}

// resolve returns the whole path of a node of the fleet.
func (s modelSource) resolve(path string) (string, error) {
	path = s.c.fleet().Resolve(path)
	if !s.c.fleet().Has(path) {
		return "", s.c.fleet().NotFound(path)
	}
	return path, nil
}

// config returns which file is in force.
func (s modelSource) config() status.Config {
	config := s.c.fleet().Config
	return status.Config{Path: config.Path, Revision: config.Revision, LoadedAt: config.LoadedAt,
		LastError: s.c.reloader.Rejected()}
}

// store returns whether state is being kept.
func (s modelSource) store() status.Store {
	kept := status.Store{Kind: "memory", OK: true}
	switch at := s.c.opts.Store.(type) {
	case interface{ Path() string }:
		kept.Kind, kept.Path = "sqlite", at.Path()
	case *fenced.Store:
		kept.Kind, kept.Path, kept.Writes = "etcd", at.String(), status.WritesOf(at)
	}
	if keys := damagedRecords(s.c.opts.Store); len(keys) > 0 {
		kept.OK, kept.Error = false, damagedMessage(keys[0])
		if len(keys) > 1 {
			kept.Error = fmt.Sprintf("%d records are damaged; the first: %s", len(keys), kept.Error)
		}
	}
	if err := s.c.writable(); err != nil {
		kept.OK, kept.Error = false, err.Error()
	}
	return kept
}

// writable returns why the store accepts no writes at present, or nil.
func (c *Controller) writable() error {
	err := c.log.Err()
	if w, ok := c.opts.Store.(interface{ Waiting() error }); ok && err == nil {
		err = w.Waiting() // also before the first event is refused
	}
	return err
}

// triggered returns what is shown of an agent with an Aidefile in addition to other agents;
// nil for those.
func (s modelSource) triggered(path string, i supervisor.ChildInfo) *status.Triggered {
	a, nextFire := s.c.triggers.API(path, i)
	if a == nil {
		return nil
	}
	t := &status.Triggered{
		Aide: a, Held: s.c.triggers.HeldBy(path), NextFire: nextFire,
		Reason: a.Reason(), Evidence: a.Evidence(),
	}
	t.Next, t.Hint = a.Outlook(path)
	return t
}

// Model returns the read model of the fleet.
func (c *Controller) Model() *status.Model { return c.status }
