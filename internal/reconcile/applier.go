package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// updateTimeout bounds the wait until all supervisors have their new specifications: one that
// is restarting its children takes its own afterwards.
const updateTimeout = 2 * time.Second

// ApplierOptions are the parts of a daemon that an Applier uses.
type ApplierOptions struct {
	Store    store.Store
	Log      *event.Log
	Logger   *slog.Logger
	Removals *Removals
	// Background ends with the daemon. Removals that an update of the fleet causes run in it.
	Background context.Context

	// Find returns a supervisor that runs; nil if it does not.
	Find func(path string) *supervisor.Supervisor
	// Locate returns the supervisor of a node of the fleet, and its ID there.
	Locate func(path string) (*supervisor.Supervisor, string, error)
	// Stop stops a child by calling stop, after all in it that must stop first.
	Stop func(ctx context.Context, path string, child supervisor.ChildInfo, stop func(context.Context) error) error

	Last    func(path string) uint64                   // the last incarnation of an agent
	Known   func(path string) bool                     // whether this daemon has logged events of an agent
	Exited  func(path string, incarnation uint64) bool // whether an incarnation has exited
	IsPool  func(path string) bool                     // whether a supervisor is a pool
	Updated func(paths []string)                       // agents whose declaration has changed in place
	Moved   func(ctx context.Context, path string)     // an agent that may have moved to another runtime
	Drain   func(a Action)                             // drains an agent and restarts it then
	Note    func(path string, when Restart)            // notes a restart for the next reload
	Ending  func(path string)                          // an agent that is going to be removed
	Removed func(ctx context.Context, path string)     // an agent that has ended and is removed
	Discard func(ctx context.Context, path string)     // removes the slots and files of an agent
}

// Applier holds the desired state and carries it out in the supervisors. It keeps the last
// states of the agents that it removes, for when they are declared again.
type Applier struct {
	ApplierOptions
	fleet atomic.Pointer[fleet.Fleet]

	mu      sync.Mutex
	removed map[string]supervisor.Saved
}

// NewApplier returns an Applier whose desired state is f.
func NewApplier(f *fleet.Fleet, o ApplierOptions) *Applier {
	a := &Applier{ApplierOptions: o, removed: make(map[string]supervisor.Saved)}
	a.fleet.Store(f)
	return a
}

// Fleet returns the desired state.
func (a *Applier) Fleet() *fleet.Fleet { return a.fleet.Load() }

// SetFleet replaces the desired state. The supervisors do not know of it before Update.
func (a *Applier) SetFleet(f *fleet.Fleet) { a.fleet.Store(f) }

// Update gives the supervisors the specifications of a fleet that has replaced another one.
// The loop must be frozen.
func (a *Applier) Update(ctx context.Context, next *fleet.Fleet, changes spec.Changes) {
	for _, at := range changes.Removed {
		if next.Has(at) { // an agent has become a supervisor, or the other way round
			a.Remove(a.Background, at)
		}
	}
	if len(changes.Supervisors) > 0 {
		a.updateSupervisors(ctx, next)
	}
	a.Updated(changes.Changed)
	a.releaseAbove(slices.Concat(changes.Removed, changes.Added, changes.Changed))
}

// releaseAbove starts the held supervisors above nodes that have changed: the change may fix
// what has failed. Release starts held agents.
func (a *Applier) releaseAbove(changed []string) {
	for _, at := range changed {
		for above := path.Dir(at); above != "."; above = path.Dir(above) {
			sup, id, err := a.Locate(above)
			if err != nil {
				continue
			}
			if info, err := sup.Child(id); err == nil && IsHeld(info.State) {
				a.LogUnexpected("cannot release a held supervisor", above, sup.Reset(id))
			}
		}
	}
}

// updateSupervisors gives the supervisors their new specifications: each passes them on. New
// children are listed; the reconciler starts them.
func (a *Applier) updateSupervisors(ctx context.Context, f *fleet.Fleet) {
	root := a.Find(f.Root.Name)
	if root == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	switch err := root.Update(ctx, *f.Root); {
	case err == nil, errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrStopping),
		errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded):
		a.Logger.Info("a supervisor is restarting its children and changes afterwards")
	default:
		a.Logger.Error("cannot change the supervisors", "error", err)
	}
}

// Start starts a declared node that does not run, unless something holds it.
func (a *Applier) Start(ctx context.Context, at string) {
	sup, id, err := a.Locate(at)
	if err == nil {
		_, err = sup.EnsureChild(ctx, id)
	}
	a.LogUnexpected("cannot start what is declared", at, err)
}

// Suspend stops what the file suspends, and logs why. It starts when the file no longer
// suspends it.
func (a *Applier) Suspend(ctx context.Context, at, why string) {
	sup, id, err := a.Locate(at)
	if err == nil {
		var info supervisor.ChildInfo
		if info, err = sup.Child(id); err == nil {
			err = a.Stop(ctx, at, info, func(ctx context.Context) error {
				return sup.TerminateChild(ctx, id, supervisor.ReasonSuspended)
			})
		}
	}
	if err != nil {
		a.LogUnexpected("cannot stop what the file suspends", at, err)
		return
	}
	a.Log.Append(event.Event{
		Type: event.AgentSuspended, Path: at, Incarnation: a.Last(at), Actor: "controller",
		Message: at + " is suspended: " + why,
	})
}

// LogUnexpected logs an error of a supervisor, except one that an event reports, and one
// that says that the node is being taken care of already.
func (a *Applier) LogUnexpected(what, at string, err error) {
	var start *supervisor.StartError
	var held *supervisor.HeldError
	switch {
	case err == nil, errors.As(err, &start), errors.As(err, &held),
		errors.Is(err, supervisor.ErrRunning), errors.Is(err, supervisor.ErrNotRunning),
		errors.Is(err, supervisor.ErrRestarting),
		errors.Is(err, supervisor.ErrTerminated), errors.Is(err, supervisor.ErrPaused),
		errors.Is(err, supervisor.ErrStopping),
		errors.Is(err, supervisor.ErrNoSupervisor), errors.Is(err, supervisor.ErrNotFound),
		errors.Is(err, context.Canceled):
	default:
		a.Logger.Warn(what, "path", at, "error", fmt.Sprint(err))
	}
}
