package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/shutdown"
	"github.com/coppice-dev/coppice/internal/spec"
)

// turn is the place of an agent in an ordered stop.
type turn struct {
	sequence *shutdown.Sequence
	path     string
}

func (t turn) Await(ctx context.Context) (within time.Duration, ordered bool) {
	return t.sequence.Await(ctx, t.path)
}
func (t turn) Bound() time.Duration { return t.sequence.Bound(t.path) }

// BeginStop plans to stop all agents at and below a path in the order of the tree that they belong to.
// The caller tells their supervisors to stop, which ask all agents at once: each waits for its turn.
// Late is as in shutdown.Scope.
func (m *Manager) BeginStop(path string, order *spec.StartOrder, late func()) *shutdown.Run {
	running, starting := m.registry.below(path)
	return m.sequence.Begin(shutdown.Scope{
		Path: path, Order: order, Living: running, Starting: starting, Allowed: m.StopTimeout, Late: late,
		Of: func(path string) shutdown.Process {
			if p := m.registry.of(path); p != nil {
				return p
			}
			return nil
		},
		Overdue: m.logOverdue,
	})
}

// IsStopping reports whether an ordered stop covers a path.
func (m *Manager) IsStopping(path string) bool { return m.sequence.Covers(path) }

// logOverdue logs that an agent did not stop in time.
func (m *Manager) logOverdue(path string, waited time.Duration) {
	o := m.Session(path).Observe()
	overdue := api.Overdue{Path: path, PID: o.PID, Waited: waited.Seconds()}
	m.Overdue(overdue)
	m.Log.Append(event.Event{
		Type: event.AgentOverdue, Path: path, Incarnation: o.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s did not stop within %v, and is killed", overdue.Who(),
			waited.Round(100*time.Millisecond)),
	}.With(overdue))
}

// AwaitStarts waits until the starts that are under way are decided, at most for some time.
func (m *Manager) AwaitStarts(atMost time.Duration) { m.registry.awaitStarts(atMost) }

// IsEmpty reports whether no agent runs.
func (m *Manager) IsEmpty() bool { return m.registry.empty() }

// StopUnadopted stops the agents that were found running and were not adopted before their
// supervisors ended.
func (m *Manager) StopUnadopted() {
	kinds := make(map[string][]string) // by path
	m.mu.Lock()
	for path, a := range m.adoptions {
		kinds[path] = append(kinds[path], a.kind)
	}
	for path, stale := range m.staleSlots {
		for _, s := range stale.slots {
			kinds[path] = append(kinds[path], s.Kind)
		}
	}
	clear(m.adoptions)
	clear(m.staleSlots)
	m.mu.Unlock()
	var wg sync.WaitGroup
	for path, in := range kinds {
		for _, kind := range in {
			wg.Go(func() { m.stopSlot(path, kind) })
		}
	}
	wg.Wait()
}

// stopSlot stops what runs in a slot. After Hurry it is killed.
func (m *Manager) stopSlot(path, kind string) {
	within := m.StopTimeout(path)
	ctx, cancel := context.WithTimeout(context.Background(), within+shutdown.KillTime)
	defer cancel()
	s, err := AdoptKnown(ctx, m.runtimes[kind], path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && isClosed(s.Done()) {
		return
	}
	if isClosed(m.Hurry) {
		within = 0
	}
	if err == nil {
		asking, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-m.Hurry:
				stop()
			case <-asking.Done():
			}
		}()
		err = Evict(asking, m.runtimes[kind], path, within)
	}
	if err != nil {
		m.Logger.Error("cannot stop an agent that was found running", "path", path, "error", err)
		return
	}
	m.Log.Append(event.Event{
		Type: event.AgentStopped, Path: path, Incarnation: s.Observe().Incarnation, Actor: "controller",
		Message: path + " stopped: it was found running and not adopted before the end",
	})
}
