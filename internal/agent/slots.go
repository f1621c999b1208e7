package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Slot is an observation of a slot of one of the runtimes.
type Slot struct {
	Kind string // of the runtime
	runtime.Observation
}

// Lives reports whether an agent may run in the slot.
func (s Slot) Lives() bool { return s.Life != runtime.Dead }

// ListSlots lists the slots of runtimes.
func ListSlots(ctx context.Context, runtimes []runtime.Runtime) (all []Slot, err error) {
	for _, rt := range runtimes {
		slots, err := rt.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for what runs in %s: %w", rt.Kind(), err)
		}
		for _, o := range slots {
			all = append(all, Slot{rt.Kind(), o})
		}
	}
	return all, nil
}

// adoption is an incarnation that is to be adopted where it is.
type adoption struct {
	kind        string // of the runtime
	incarnation uint64
	late        bool      // its start is not on record: the on_start hook may not have run
	endedAt     time.Time // zero: it runs, or that is not known
	startedAt   time.Time // of one that is lost
}

// staleSlots are slots of an agent that its next incarnation will not use: because the file names
// another runtime than before, or because the incarnation there was being stopped for a restart. They
// are emptied before the agent is started, so that it never runs twice.
type staleSlots struct {
	slots  []Slot
	why    string  // what runs in the runtime of the agent is stopped
	record *Record // of the agent when they are empty
}

// Look lists the slots of all runtimes by path. It waits for a runtime that cannot be asked and for
// slots of unknown state: to guess may start an agent twice.
func (m *Manager) Look(ctx context.Context) (map[string][]Slot, error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		found, doubt := m.survey(ctx)
		if doubt == nil {
			return found, nil
		}
		m.Logger.Warn("cannot tell what runs; waiting", "error", doubt)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("looking for what runs: %w", doubt)
		}
	}
}

// survey observes all slots once. doubt names a slot whose state is unknown. A slot of unknown state in
// the runtime of its agent is no reason for doubt: its adoption can wait.
func (m *Manager) survey(ctx context.Context) (found map[string][]Slot, doubt error) {
	found = make(map[string][]Slot)
	agents := m.Fleet().Agents()
	pathOf := slotPaths(maps.All(agents))
	for _, kind := range slices.Sorted(maps.Keys(m.runtimes)) {
		all, err := m.runtimes[kind].List(ctx)
		if err != nil {
			return nil, fmt.Errorf("runtime %s: %w: %w", kind, runtime.ErrUnknown, err)
		}
		for _, o := range all {
			if o.Life == runtime.Unknown {
				o.Path = pathOf(o.Path)
			}
			a := agents[o.Path]
			if o.Life == runtime.Unknown && (a == nil || a.Runtime.String() != kind) {
				return nil, fmt.Errorf("%s in runtime %s: %w: %s", o.Path, kind, runtime.ErrUnknown, o.Detail)
			}
			found[o.Path] = append(found[o.Path], Slot{kind, o})
		}
	}
	return found, nil
}

// slotPaths returns a function that finds the path of the agent of a slot that is known by the name of
// its directory alone, because its record is damaged. The runtime can repair it when it knows the path.
func slotPaths[V any](agents iter.Seq2[string, V]) (pathOf func(slot string) string) {
	paths := sync.OnceValue(func() map[string]string {
		paths := make(map[string]string)
		for path := range agents {
			if name, err := wire.DirName(path); err == nil {
				paths[name] = path
			}
		}
		return paths
	})
	return func(slot string) string { return cmp.Or(paths()[slot], slot) }
}

// addStale has a slot of an agent emptied before the agent is started.
func (m *Manager) addStale(s Slot, why string, r *Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.staleSlots[r.Path] == nil {
		m.staleSlots[r.Path] = &staleSlots{record: r}
	}
	m.staleSlots[r.Path].slots = append(m.staleSlots[r.Path].slots, s)
	m.staleSlots[r.Path].why = why
}

// clearStale empties the slots that an agent is not to use, except the one that it is being adopted
// from. While that fails, the agent cannot be started.
func (m *Manager) clearStale(ctx context.Context, a *spec.Agent, path string, from adoption, adopting bool) error {
	m.mu.Lock()
	stale := m.staleSlots[path]
	m.mu.Unlock()
	if stale == nil {
		return nil
	}
	var later []Slot
	for _, s := range stale.slots {
		if adopting && s.Kind == from.kind {
			later = append(later, s)
		} else if err := m.clearSlot(ctx, a, path, s, stale); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if stale.slots = later; len(later) == 0 {
		delete(m.staleSlots, path)
	}
	return nil
}

// clearSlot empties a stale slot of an agent.
func (m *Manager) clearSlot(ctx context.Context, a *spec.Agent, path string, s Slot, stale *staleSlots) error {
	home := s.Kind == a.Runtime.String()
	if home {
		if err := m.adopt(ctx, s.Observation); err != nil { // until it has ended
			return err
		}
	}
	if err := Evict(ctx, m.runtimes[s.Kind], path, a.Shutdown.Grace); err != nil {
		return fmt.Errorf("it has to leave runtime %s first: %w", s.Kind, err)
	}
	if home {
		m.cleared(path, s.Incarnation)
	}
	if s.Life == runtime.Alive {
		why, data := stale.why, map[string]any{"reason": stale.why}
		if !home {
			why = fmt.Sprintf("it moves from %s to %v", s.Kind, a.Runtime)
			data = map[string]any{"reason": "runtime changed", "from": s.Kind, "to": a.Runtime.String()}
		}
		m.Log.Append(event.Event{
			Type: event.AgentStopped, Path: path, Incarnation: s.Incarnation, Actor: "controller",
			Message: fmt.Sprintf("%s stopped: %s", path, why),
		}.With(data), stale.record.Op())
		m.Starts.Logged(path, stale.record.Incarnation)
	}
	if !home {
		m.Remove(ctx, m.runtimes[s.Kind], path)
	}
	return nil
}

// CheckDeadline has what runs in runtimes of this node end if its deadline is over: see runtime.Expirer.
func CheckDeadline(ctx context.Context, runtimes []runtime.Runtime) {
	var wg sync.WaitGroup
	for _, rt := range runtimes {
		if e, ok := rt.(runtime.Expirer); ok {
			wg.Go(func() { e.CheckDeadline(ctx) })
		}
	}
	wg.Wait()
}

// maxParallel bounds the number of agents that are stopped or adopted at the same time.
const maxParallel = 16

// stopUnwanted stops and removes what is not to run.
func (m *Manager) stopUnwanted(ctx context.Context, all []Slot) {
	agents := m.Fleet().Agents()
	parallel(all, func(s Slot) {
		rt, a, why, grace := m.runtimes[s.Kind], agents[s.Path], "is no longer wanted", supervisor.DefaultShutdown
		if a != nil {
			why, grace = "was stopped by hand", a.Shutdown.Grace
		}
		if err := Evict(ctx, rt, s.Path, grace); err != nil {
			m.Logger.Error("cannot stop an agent that "+why, "path", s.Path, "error", err)
			return
		}
		if s.Life == runtime.Alive {
			m.Log.Append(event.Event{
				Type: event.AgentStopped, Path: s.Path, Incarnation: s.Incarnation, Actor: "controller",
				Message: fmt.Sprintf("%s stopped: it %s", s.Path, why),
			})
		}
		if a == nil || a.Runtime.String() != s.Kind {
			m.Remove(ctx, rt, s.Path)
		}
	})
}

// parallel calls do for all items, some at a time, and waits until all calls have returned.
func parallel[T any](all []T, do func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for _, item := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			do(item)
		})
	}
	wg.Wait()
}

// Remove removes a slot in which nothing runs.
func (m *Manager) Remove(ctx context.Context, rt runtime.Runtime, path string) {
	if err := rt.Remove(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Logger.Warn("cannot remove a slot", "path", path, "runtime", rt.Kind(), "error", err)
	}
}

// Evict stops what runs in a slot, whichever incarnation that is.
func Evict(ctx context.Context, rt runtime.Runtime, path string, grace time.Duration) error {
	s, err := adoptKnown(ctx, rt, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return Dismiss(ctx, s, path, grace)
}

// Dismiss stops an incarnation that has no supervisor: it is asked and, after its grace period, killed.
func Dismiss(ctx context.Context, s runtime.Session, path string, grace time.Duration) error {
	s.Stop()
	select {
	case <-s.Done():
		return nil
	case <-time.After(grace):
	case <-ctx.Done():
	}
	s.Kill()
	select {
	case <-s.Done():
		return nil
	case <-time.After(supervisor.KillGrace):
		return fmt.Errorf("%s: %w", path, &supervisor.AbandonedError{Path: path, Waited: grace + supervisor.KillGrace})
	}
}

// adoptIfAny adopts the incarnation in a slot; nil if there is none.
func adoptIfAny(ctx context.Context, rt runtime.Runtime, path string) (runtime.Session, error) {
	s, err := adoptKnown(ctx, rt, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// adoptKnown repeats Adopt until the state of the slot is known.
func adoptKnown(ctx context.Context, rt runtime.Runtime, path string) (runtime.Session, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := rt.Adopt(ctx, path)
		if !errors.Is(err, runtime.ErrUnknown) {
			return s, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}
