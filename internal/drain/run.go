package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// retryDelay is the time between two attempts to stop an agent that was drained.
const retryDelay = 500 * time.Millisecond

// Drain drains an agent, with a supervisor all below it. It returns when they are stopped; the drains
// go on if ctx ends.
func (m *Manager) Drain(ctx context.Context, req Request) error {
	agents, err := m.Agents.Below(req.Path)
	if err != nil {
		return err
	}
	timeout := time.Duration(req.Timeout * float64(time.Second))
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	errs := make([]error, len(agents))
	var wg sync.WaitGroup
	for i, agent := range agents {
		wg.Go(func() { errs[i] = m.drain(ctx, agent, timeout, req) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// drain drains one agent. An agent that does not run is stopped at once.
func (m *Manager) drain(ctx context.Context, path string, timeout time.Duration, req Request) error {
	info, err := m.Agents.Child(path)
	if err != nil {
		return err
	}
	if d := m.of(path); d != nil {
		d.stopAfterwards()
		return d.wait(ctx)
	}
	if req.Again { // what became of the drain is known, if its end is
		if info.State == supervisor.Suspended {
			return nil
		}
		return errNotDrained(path)
	}
	if info.State != supervisor.Running && info.State != supervisor.Starting {
		return m.Agents.StopNow(ctx, path)
	}
	m.Agents.DropRestart(path, "it is asked to finish")
	r := record{Path: path, Incarnation: info.Incarnation, Reason: proc.OneLine(req.Reason, api.MaxNote)}
	return m.begin(r, timeout, "user").wait(ctx)
}

// Renew asks an incarnation to finish within some time, and starts the agent again then.
// If counted, that start counts for its limit.
func (m *Manager) Renew(path string, incarnation uint64, reason string, within time.Duration, counted bool) {
	m.begin(record{
		Path: path, Incarnation: incarnation, Reason: proc.OneLine(reason, api.MaxNote), Renew: true, Counted: counted,
	}, within, "controller")
}

// finish stops an agent, or starts it again, when it has finished or its time is over.
// If the daemon ends before, the next one goes on.
func (m *Manager) finish(ctx context.Context, d *drain) {
	defer d.close(d.done)
	d.err = fmt.Errorf("%s: %w", d.Path, api.ErrStopping)
	how := "has finished"
	select {
	case <-d.acknowledged:
	case <-d.exited:
		how = "has ended"
	case <-time.After(d.left()):
		how = "did not finish in time"
	case <-d.canceled:
	case <-ctx.Done():
		return
	}
	switch {
	case !d.decide(""):
		<-d.canceled
		d.err = errNotDrained(d.Path)
	case d.renews():
		m.renew(ctx, d, how)
	default:
		m.stop(ctx, d, how)
	}
}

// stop stops a drained agent. It tries until that succeeds: its supervisor may be restarting.
func (m *Manager) stop(ctx context.Context, d *drain, how string) {
	var stopped []store.Op
	for {
		var err error
		if stopped, err = m.Agents.Suspend(ctx, d.Path); err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, api.ErrStopping) {
			return
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return
		}
	}
	m.end(d.Path, d.Incarnation, event.Event{
		Type: event.AgentDrained, Actor: "controller", Message: fmt.Sprintf("%s %s, and is stopped", d.Path, how),
	}.With(map[string]any{"finished": isClosed(d.acknowledged)}), stopped...)
	d.err = nil
}

// renew starts a drained agent again. If that is not possible now, the drain is over
// all the same, and the reconciler starts it.
func (m *Manager) renew(ctx context.Context, d *drain, how string) {
	defer m.Changed(d.Path)
	defer m.setRenewing(d.Path, 0)
	m.setRenewing(d.Path, d.Incarnation) // or the reconciler would drain it once more until it is replaced
	m.end(d.Path, d.Incarnation, event.Event{
		Type: event.AgentDrainEnded, Actor: "controller",
		Message: fmt.Sprintf("%s %s, and is started again", d.Path, how),
	}.With(map[string]any{"finished": isClosed(d.acknowledged)}))
	m.Agents.Renew(ctx, d.Path, d.Incarnation, d.Counted)
}

func (m *Manager) setRenewing(path string, incarnation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if incarnation == 0 {
		delete(m.renewing, path)
		return
	}
	m.renewing[path] = incarnation
}
