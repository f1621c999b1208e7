package metrics

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// followAgain is the pause after the store could not be read.
const followAgain = time.Second

// Run counts the events that are written after an event, until ctx ends. It reads them from the log, so it delays
// nothing, and it counts each of them once. A nil Metrics returns at once.
func (m *Metrics) Run(ctx context.Context, after uint64) {
	if m == nil {
		return
	}
	var last, since time.Time // of the last event; of those that count
	for ctx.Err() == nil {
		for e, err := range m.o.Follow(ctx, after, event.Filter{}) {
			if err != nil {
				if ctx.Err() == nil {
					m.o.Logger.Warn("cannot read events to count them; trying again", "error", err)
				}
				break
			}
			after = e.Seq
			if e.Type == event.EventsReset { // the log was made again, perhaps of a backup with what was counted
				since = last
			}
			if e.Time.After(since) {
				last = e.Time
				m.Count(e)
			}
		}
		select {
		case <-time.After(followAgain):
		case <-ctx.Done():
		}
	}
}

// exitOutcome returns the outcome of the end of an incarnation, by the type of its event.
func exitOutcome(t event.Type) string {
	switch t {
	case event.AgentExited, event.AgentCrashed, event.AgentLost, event.AgentStopped, event.AgentWaiting,
		event.AgentAbandoned:
		return strings.TrimPrefix(string(t), "agent.")
	}
	return ""
}

// onLimit returns what follows when a limit is reached, by the type of the event.
func onLimit(t event.Type) string {
	switch t {
	case event.AgentLimitReached, event.SupervisorLimitReached:
		return "escalate"
	case event.AgentQuarantined, event.SupervisorQuarantined:
		return "quarantine"
	case event.AgentGaveUp, event.SupervisorGaveUp:
		return "give_up"
	case event.SupervisorPaused:
		return "pause"
	}
	return ""
}

// Count counts an event.
func (m *Metrics) Count(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Type.Declared() {
		m.daemon.add(eventsTotal, 1, string(e.Type))
	}
	if outcome := exitOutcome(e.Type); outcome != "" {
		m.agents.of(e.Path).add(agentExits, 1, outcome)
	}
	if action := onLimit(e.Type); action != "" {
		at := e.Path
		if strings.HasPrefix(string(e.Type), "agent.") {
			at = parent(at)
		}
		m.supervisors.of(at).add(limitsReached, 1, action)
	}
	m.countDelay(e)
	m.countRecovery(e)
	switch e.Type {
	case event.AgentStarted:
		var data event.Started
		reason := "start"
		if e.Decode(&data) == nil && data.Restart {
			reason = "restart"
		}
		m.agents.of(e.Path).add(agentStarts, 1, reason)
	case event.AgentAdopted:
		m.agents.of(e.Path).add(agentStarts, 1, "adoption")
	case event.AgentStartFailed:
		m.agents.of(e.Path).add(agentStartFailures, 1)
	case event.AgentRemoved:
		m.agents.remove(e.Path)
	case event.EventsDropped:
		var data event.Dropped
		if e.Decode(&data) == nil {
			m.daemon.add(eventsDropped, float64(data.Count))
		}
	case event.EventsLost:
		var data event.Lost
		if e.Decode(&data) == nil {
			m.daemon.add(eventsDropped, max(0, float64(data.Count)))
		}
	case event.OrderFailed:
		m.orders.of(orderOf(e)).add(ordersFailed, 1)
	case event.OrderCompleted:
		m.succeeded(orderOf(e), e.Time)
	}
}

// countDelay observes the delay before a restart of an agent.
func (m *Metrics) countDelay(e event.Event) {
	switch e.Type {
	case event.AgentExited, event.AgentCrashed, event.AgentLost, event.AgentStartFailed:
		var data event.Decision
		if e.Decode(&data) == nil && data.Decision == "restart" {
			m.delay.Observe(max(0, data.DelaySeconds))
		}
	}
}

// maxDown bounds the number of agents whose recovery is measured at the same time.
const maxDown = 10_000

// countRecovery measures the time from a crash to the next incarnation that is ready. Needs mu.
func (m *Metrics) countRecovery(e event.Event) {
	switch e.Type {
	case event.AgentCrashed, event.AgentLost:
		if _, known := m.down[e.Path]; !known && len(m.down) < maxDown {
			m.down[e.Path] = e.Time
		}
	case event.AgentStarted:
		if since, ok := m.down[e.Path]; ok {
			m.recovery.Observe(max(0, e.Time.Sub(since).Seconds()))
		}
		delete(m.down, e.Path)
	case event.AgentAdopted, event.AgentExited, event.AgentStopped, event.AgentWaiting, event.AgentChanged,
		event.AgentRemoved:
		delete(m.down, e.Path)
	}
}

// succeeded notes when a run of an order has completed. Needs mu.
func (m *Metrics) succeeded(order string, at time.Time) {
	p := m.orders.of(order).at(orderSuccess)
	p.value, p.set = max(p.value, seconds(at)), always
}

// Bounds of labels that command lines choose.
const (
	maxModels   = 8 // of an agent
	maxVersions = 50
	maxLabel    = 100 // bytes
	other       = "other"
)

// Used counts what was added to the ledger.
func (m *Metrics) Used(u cost.Used) {
	if m == nil || u.Calls == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.agents.of(u.Agent)
	s.add(calls, float64(u.Calls))
	s.add(unmeasured, float64(u.UnknownTokens))
	s.add(unpriced, float64(u.UnknownDollars))
	for model, n := range u.Models {
		model = cmp.Or(plaintext.OneLine(model, maxLabel), "unknown")
		if !s.has(tokens, 1, maxModels, model) {
			model = other
		}
		for _, part := range []struct {
			of string
			n  int64
		}{{"input", n.Input}, {"output", n.Output}, {"cache_read", n.CacheRead}, {"cache_write", n.CacheWrite}} {
			if part.n > 0 {
				s.add(tokens, float64(part.n), model, part.of)
			}
		}
		if n.Dollars > 0 {
			s.add(dollars, n.Dollars, model)
		}
	}
	if u.Unknown > 0 {
		cli, version := plaintext.OneLine(string(u.CLI), maxLabel), plaintext.OneLine(u.Version, maxLabel)
		if !m.daemon.has(unknownStream, 0, maxVersions, cli) || !m.daemon.has(unknownStream, 1, maxVersions, version) {
			cli, version = other, other
		}
		m.daemon.add(unknownStream, float64(u.Unknown), cli, version)
	}
}

// parent returns the path of the supervisor of a node; its own if it is the root.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return path
}

func orderOf(e event.Event) string { return strings.TrimPrefix(e.Path, "orders/") }
