package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// retryDelay is the time between two attempts to stop a drained agent.
const retryDelay = 500 * time.Millisecond

// Drain drains an agent, or all agents below a supervisor. It returns when they are stopped, or when
// ctx ends; the drains continue then.
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
	if req.Again { // the drain of the lost answer has ended
		if info.State == supervisor.Suspended {
			return nil
		}
		return errNotDrained(path)
	}
	if info.State != supervisor.Running && info.State != supervisor.Starting {
		return m.Agents.StopNow(ctx, path)
	}
	m.Agents.DropRestart(path, "it is asked to finish")
	r := record{Path: path, Incarnation: info.Incarnation, Reason: plaintext.OneLine(req.Reason, api.MaxNote)}
	return m.begin(r, timeout, "user").wait(ctx)
}

// Renew drains an incarnation for at most the given time, and restarts the agent then. If counted is
// set, the restart counts for its limit.
func (m *Manager) Renew(path string, incarnation uint64, reason string, within time.Duration, counted bool) {
	m.begin(record{
		Path: path, Incarnation: incarnation, Reason: plaintext.OneLine(reason, api.MaxNote),
		Renew: true, Counted: counted,
	}, within, "controller")
}

// finish stops or restarts an agent when it has finished or its deadline is reached. If the daemon
// stops before, the next one continues.
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

// stop stops a drained agent. It retries until that succeeds, since the supervisor may be restarting.
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

// renew restarts a drained agent. If that fails, the drain is over nevertheless, and the reconciler
// starts the agent.
func (m *Manager) renew(ctx context.Context, d *drain, how string) {
	defer m.Changed(d.Path)
	defer m.setRenewing(d.Path, 0)
	m.setRenewing(d.Path, d.Incarnation) // otherwise the reconciler would drain it once more
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
