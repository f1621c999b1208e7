package health

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/token"
)

// readyRetry is the delay between two attempts to tell a runtime that an agent is ready. The agent
// may report that before the daemon knows of its start.
const readyRetry = 50 * time.Millisecond

var errStarting = fmt.Errorf("%w: the agent is still starting", api.ErrConflict)

// Ready handles the route Ready. It waits until the start of the agent is known.
func (m *Monitor) Ready(ctx context.Context, who token.Caller) error {
	for {
		i := m.Incarnation(who)
		if i == nil {
			return token.Stale(who)
		}
		if i.Ready() {
			return nil
		}
		a := m.opts.Fleet.Spec(who.Path)
		if a == nil {
			return token.Stale(who)
		}
		var err error
		switch {
		case a.Ready.Notify:
			err = m.opts.Fleet.Ready(ctx, who)
		case a.Ready.IsSet():
			return fmt.Errorf("%w: %s does not report itself that it is ready; "+
				"set ready = { notify = true } in the file", api.ErrConflict, who.Path)
		default: // it becomes ready when its start is finished
			err = errStarting
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(readyRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// Heartbeat handles the route Heartbeat.
func (m *Monitor) Heartbeat(who token.Caller, b Beat) {
	note := plaintext.OneLine(b.Note, api.MaxNote)
	m.heartbeat(who, func(w *liveness.Watch, now time.Time) bool { return w.Progress(now, b.Progress, note) })
}

// API returns the health of an agent as the API shows it, or nil if nothing is known.
func (m *Monitor) API(path string) *Info {
	i := m.Latest(path)
	if i == nil {
		return nil
	}
	i.mu.Lock()
	s := i.watch.State()
	i.mu.Unlock()
	if !s.Heard && s.Timeouts.Heartbeat == 0 && s.Timeouts.Progress == 0 {
		return nil
	}
	v := &Info{
		HeartbeatTimeout: s.Timeouts.Heartbeat.Seconds(), Progress: s.Number, Note: s.Note,
		ProgressTimeout: s.Timeouts.Progress.Seconds(), Unresponsive: s.Suspected, Waiting: s.Waiting,
	}
	if s.Heard {
		v.Heartbeat = new(time.Since(s.Heartbeat).Seconds())
	}
	if s.Number != nil || s.Note != "" || s.Timeouts.Progress > 0 {
		v.ProgressAge = time.Since(s.Progress).Seconds()
	}
	return v
}

// Evidence describes the health of an agent in words.
func Evidence(v *Info) (facts []string) {
	if v == nil {
		return nil
	}
	limit := func(seconds float64) string {
		if seconds == 0 {
			return ""
		}
		return "; the limit is " + liveness.Brief(duration(seconds))
	}
	age := func(seconds float64) string { return liveness.Brief(duration(seconds).Round(time.Second)) }
	switch {
	case v.Heartbeat != nil:
		facts = append(facts, fmt.Sprintf("last heartbeat %s ago%s", age(*v.Heartbeat), limit(v.HeartbeatTimeout)))
	case v.HeartbeatTimeout > 0:
		facts = append(facts, "no heartbeat yet"+limit(v.HeartbeatTimeout))
	}
	if claim := liveness.Claim(v.Progress, v.Note); claim != "" || v.ProgressTimeout > 0 {
		if claim == "" {
			claim = "not reported"
		}
		facts = append(facts,
			fmt.Sprintf("progress %s, unchanged for %s%s", claim, age(v.ProgressAge), limit(v.ProgressTimeout)))
	}
	switch {
	case v.Waiting && (v.HeartbeatTimeout > 0 || v.ProgressTimeout > 0):
		facts = append(facts, "it waits for a person or a task, and may be silent until then")
	case v.Unresponsive:
		facts = append(facts, "it is unresponsive: unless it reports soon, it is failed and restarted")
	}
	return facts
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
