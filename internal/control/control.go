// Package control starts, stops, restarts, resets, suspends and resumes the nodes of a running tree,
// and the project as a whole, when a person or an order asks for it.
//
// What was stopped by hand stays down until it is started by hand, and what was suspended until it is
// resumed; both hold for the next daemon, too.
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

// Options connect a Manager with the rest of the daemon. All are needed.
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
	// Once: the tree runs once, and a suspension of the project ends with it.
	Once    bool
	Started time.Time // when the daemon was
	// End stops everything in order and ends the daemon; with keep, agents go on without it. It
	// returns when the daemon has begun to.
	End func(keep bool)
}

// Drains are the agents that are asked to finish.
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
	// list it as suspended; NoReason if they are not.
	HeldBy(path string) supervisor.Reason
	// Act carries out an action on such an agent. It calls before with the state of the agent first,
	// and returns its error if that says that nothing else is to be done.
	Act(ctx context.Context, path string, action Action, before func(
		info supervisor.ChildInfo, restartCounted func(cause error) error) (done bool, err error)) error
}

// Manager acts on the nodes of a tree. New makes it.
type Manager struct {
	Options
	suspension suspension
}

// New returns a Manager of a tree that need not run yet; see Restore.
func New(o Options) *Manager { return &Manager{Options: o} }
