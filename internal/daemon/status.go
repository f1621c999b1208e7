package daemon

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/supervisor"
)

// This file gives the read model what it joins.

// newStatus returns the model of a running controller.
func newStatus(c *Controller) *status.Model {
	return status.New(c.statusOptions(), status.Live{
		Version: c.opts.Version, Started: c.started,
		Root: func() *supervisor.Supervisor { return c.root }, RootState: c.rootState, Supervisor: c.find,
		Unlisted: c.tree.Unlisted, Session: c.live, AttachCommand: c.attachCommand,
		Health: c.health, Drains: c.drains, Pools: c.pools, Triggered: c.triggered,
		Waits: c.loop.Waits, Standing: c.standing,
		Resumable: c.control.IsProjectSuspended,
	})
}

// statusOptions returns what the model joins with and without a daemon.
func (c *Controller) statusOptions() status.Options {
	return status.Options{
		Host: c.host, Logger: c.opts.Logger, Fleet: c.declared, Resolve: c.nodeAt,
		SuspendedBy: c.control.SuspendedBy,
		Questions:   c.questions, Claims: c.claims, Log: c.log, Output: c.output.Last,
		Suspended: c.control.ProjectSuspended, Config: c.configStatus, Store: c.storeStatus,
		Orders: func() *order.Counts { return c.orders.Counts() },
		Inbox: func() status.Inbox {
			return status.Inbox{Questions: len(c.questions.List("", false)), Mail: c.mail.Unread(mail.People),
				Parked: c.work.Parked()}
		},
	}
}

// declared returns the fleet in force as the model sees it.
func (c *Controller) declared() status.Fleet {
	f := c.fleet()
	return status.Fleet{Root: f.Tree.Root, RootPath: f.Tree.Root.Name, Agents: f.Agents, Nodes: f.Nodes, After: f.After}
}

// nodeAt returns the whole path of a node of the fleet.
func (c *Controller) nodeAt(path string) (string, error) {
	path = c.resolvePath(path)
	if !c.fleet().Has(path) {
		return "", c.noNode(path)
	}
	return path, nil
}

// attachCommand returns how a person gets into the session of an agent without coppice.
func (c *Controller) attachCommand(path string) (argv []string, dir string) {
	r, ok := c.agents.Home(path).(interface {
		AttachCommand(path string) (argv []string, dir string, err error)
	})
	if !ok {
		return nil, ""
	}
	argv, dir, err := r.AttachCommand(path)
	if err != nil {
		return nil, ""
	}
	return argv, dir
}

// configStatus returns which file is in force.
func (c *Controller) configStatus() status.Config {
	config := c.fleet().Config
	return status.Config{Path: config.Path, Revision: config.Revision, LoadedAt: config.LoadedAt,
		LastError: c.reloader.Rejected()}
}

// storeStatus returns whether state is being kept.
func (c *Controller) storeStatus() status.Store {
	s := status.Store{Kind: "memory", OK: true}
	if p, ok := c.opts.Store.(interface{ Path() string }); ok {
		s.Kind, s.Path = "sqlite", p.Path()
	}
	if keys := damagedRecords(c.opts.Store); len(keys) > 0 {
		s.OK, s.Error = false, damagedMessage(keys[0])
		if len(keys) > 1 {
			s.Error = fmt.Sprintf("%d records are damaged; the first: %s", len(keys), s.Error)
		}
	}
	err := c.log.Err()
	if w, ok := c.opts.Store.(interface{ Waiting() error }); ok && err == nil {
		err = w.Waiting() // also before the first event is refused
	}
	if err != nil {
		s.OK, s.Error = false, err.Error()
	}
	return s
}

// Model returns the read model of the fleet.
func (c *Controller) Model() *status.Model { return c.status }
