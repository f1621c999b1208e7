// Package control starts, stops, restarts, resets, suspends and resumes the nodes of a running tree,
// and the project as a whole, at the request of a person or an order.
//
// A node that was stopped by hand stays down until it is started by hand, and a suspended one until
// it is resumed. Both hold for the next daemon, too.
package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options connect a Manager with the rest of the daemon. All are required.
type Options struct {
	Store   store.Store
	Log     *event.Log
	Journal *journal.Journal
	Logger  *slog.Logger
	Tree    *Tree
	// Adoptions returns the agents that were found running and are still to be adopted.
	Adoptions func() []string
	Stopper   *agent.Stopper
	Restarts  *agent.Restarts
	Reconcile *reconcile.Loop
	Health    *health.Monitor
	Drains    Drains
	Triggers  Triggers
	// MayStart returns an error for an instance that its pool no longer wants.
	MayStart func(path string) error
	// Once is set if the tree runs once; a suspension of the project then ends with it.
	Once    bool
	Started time.Time // when the daemon was started
	// End begins to stop everything in order and to end the daemon. With keep, agents continue
	// without it.
	End func(keep bool) error
}

// Drains are the drains of agents. *drain.Manager implements it.
type Drains interface {
	Has(path string) bool
	Of(path string) (drain.State, bool)
	Cancel(ctx context.Context, path string) (goesOn bool)
}

// Triggers start the runs of some agents. Package aidefile/trigger implements it.
type Triggers interface {
	// Has reports whether triggers start the runs of an agent.
	Has(path string) bool
	// HeldBy returns why the triggers of an agent are ignored although its supervisor does not
	// list it as suspended, or NoReason if they are not ignored.
	HeldBy(path string) supervisor.Reason
	// Act carries out an action on such an agent. It first calls before with the state of the agent.
	// If that reports that the action is done, Act returns its error.
	Act(ctx context.Context, path string, action Action, before func(
		info supervisor.ChildInfo, restartCounted func(cause error) error) (done bool, err error)) error
}

// Manager acts on the nodes of a tree. New makes it.
type Manager struct {
	Options
	suspension suspension
}

// New returns a Manager of a tree, which need not run yet; see Restore.
func New(o Options) *Manager { return &Manager{Options: o} }
