package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// OrphansOptions are the parts of a daemon that Orphans use.
type OrphansOptions struct {
	Runtimes func() map[string]runtime.Runtime // by kind
	Fleet    func() *fleet.Fleet
	Remove   func(ctx context.Context, rt runtime.Runtime, path string) // removes a slot
	Found    func()                                                     // is called after a new orphan was found
	Go       func(func(context.Context))
	Append   func(event.Event)
	Logger   *slog.Logger
}

// Orphans finds and stops what runs in slots of the project that no agent of the fleet has:
// what could not be stopped in time when it left the file, what another program has started
// there. Scans run in the background and compare the names of the slots, so that a fleet at
// rest costs the reading of a directory. What is in no slot of the project is never touched,
// such as a session that a person has opened in its tmux server.
type Orphans struct {
	o OrphansOptions

	mu       sync.Mutex
	scanning bool
	scanned  time.Time               // when the last scan began
	seen     map[string][]agent.Slot // by path
	changes  int                     // to seen, other than by scans
	failed   map[string]string       // by path: the last error of stopping it, as it was logged
}

// A scanner is a runtime that can look at some of its slots only.
type scanner interface {
	ListSome(ctx context.Context, which func(slot string) bool) ([]runtime.Observation, error)
}

// scanPause is the least time between two scans: passes come in bursts.
const scanPause = time.Second

// NewOrphans returns Orphans that have seen nothing.
func NewOrphans(o OrphansOptions) *Orphans { return &Orphans{o: o} }

// Start starts a scan in the background, unless one is running or has just finished.
func (s *Orphans) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scanning || time.Since(s.scanned) < scanPause {
		return
	}
	s.scanning = true
	s.o.Go(func(ctx context.Context) {
		found := s.Scan(ctx)
		s.mu.Lock()
		s.scanning = false
		s.mu.Unlock()
		if found {
			s.o.Found()
		}
	})
}

// Scan scans once, and reports whether it has found an orphan that was not known.
func (s *Orphans) Scan(ctx context.Context) (found bool) {
	f, runtimes := s.o.Fleet(), s.o.Runtimes()
	s.mu.Lock()
	before := s.changes
	s.scanned = time.Now()
	s.mu.Unlock()
	slots := make(map[string][]agent.Slot)
	for _, kind := range slices.Sorted(maps.Keys(runtimes)) {
		rt, ok := runtimes[kind].(scanner)
		if !ok {
			continue // its agents end with the daemon
		}
		all, err := rt.ListSome(ctx, func(slot string) bool { return !f.Slots[slot] })
		if err != nil {
			s.o.Logger.Debug("cannot scan for orphans", "runtime", kind, "error", err)
			continue // nothing is known, and nothing is done
		}
		for _, o := range all {
			if o.Life != runtime.Dead {
				slots[o.Path] = append(slots[o.Path], agent.Slot{Kind: kind, Observation: o})
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes != before {
		return false // the scan may be out of date
	}
	for path := range slots {
		found = found || s.seen[path] == nil
	}
	s.seen = slots
	maps.DeleteFunc(s.failed, func(path string, _ string) bool { return slots[path] == nil })
	return found
}

// Forget notes that what was at a path is gone.
func (s *Orphans) Forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	delete(s.seen, path)
	delete(s.failed, path)
}

// AddTo adds the orphans to the observed state, except those that are known meanwhile.
func (s *Orphans) AddTo(all map[string]*Observed, f *fleet.Fleet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, slots := range s.seen {
		if all[path] != nil || f.Has(path) {
			continue
		}
		o := &Observed{Path: path, Orphan: true}
		if slices.ContainsFunc(slots, func(s agent.Slot) bool { return s.Life == runtime.Alive }) {
			o.Phase = Running
		}
		all[path] = o
	}
}

// Stop stops an orphan. An error is logged once; the next pass tries again.
func (s *Orphans) Stop(ctx context.Context, path string) {
	s.mu.Lock()
	slots := s.seen[path]
	s.mu.Unlock()
	var errs []error
	for _, slot := range slots {
		if slot.Life == runtime.Alive {
			errs = append(errs, s.stop(ctx, slot))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		s.Forget(path)
		return
	}
	s.mu.Lock()
	logged := s.failed[path] == err.Error()
	if s.failed == nil {
		s.failed = make(map[string]string)
	}
	s.failed[path] = err.Error()
	delete(s.seen, path) // until the next scan
	s.mu.Unlock()
	if !logged {
		s.o.Logger.Error("cannot stop an orphan; it is tried again", "path", path, "error", err)
	}
}

func (s *Orphans) stop(ctx context.Context, slot agent.Slot) error {
	rt := s.o.Runtimes()[slot.Kind]
	session, err := rt.Adopt(ctx, slot.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && session.Observe().Incarnation != slot.Incarnation {
		return nil // it is gone or was replaced: the next scan shows
	}
	if err == nil {
		err = agent.Dismiss(ctx, session, slot.Path, supervisor.DefaultShutdown)
	}
	if err != nil {
		return err
	}
	s.o.Append(event.Event{
		Type: event.AgentStopped, Path: slot.Path, Incarnation: slot.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s stopped: no supervisor knew it", slot.Path),
	})
	s.o.Remove(ctx, rt, slot.Path)
	return nil
}
