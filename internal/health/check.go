package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Texts that are typed into the terminal of an unresponsive agent.
const (
	silentText = "coppice: there was no sign of you for some time. Please run: coppice agent heartbeat"
	stuckText  = "coppice: your progress is the same for some time. Please run: coppice agent heartbeat --progress N"
)

// probeTimeout bounds what is read from a runtime about a suspected agent.
const probeTimeout = 2 * time.Second

// check takes the next step against an unresponsive incarnation, if one is due: it probes, nudges
// or fails it.
func (i *Incarnation) check(ctx context.Context) {
	i.mu.Lock()
	agent := i.agent
	if i.over || i.checking || agent.Leaving() {
		i.mu.Unlock()
		return
	}
	i.checking = true
	suspected := i.watch.State().Suspected
	i.mu.Unlock()
	o := agent.Session().Observe()
	if suspected && !o.Said.Since.IsZero() && answers(agent.Session()) { // WATCHDOG=1 may be on its way
		o = agent.Session().Observe()
	}
	i.mu.Lock()
	recovered := o.Said.Alive.After(i.watch.State().Heartbeat) && i.watch.Sign(o.Said.Alive)
	a := i.watch.Tick(time.Now(), o.Life == runtime.Alive)
	state := i.watch.State()
	i.mu.Unlock()
	if recovered {
		i.logRecovery()
	}
	switch a.Step {
	case liveness.Probe:
		i.probe(ctx, agent.Session(), a, state)
	case liveness.Nudge:
		text := silentText
		if a.Cause == liveness.Progress {
			text = stuckText
		}
		i.m.Nudge(ctx, i.who.Path, text)
	case liveness.Fail:
		if agent.Fail(errors.New(a.Reason), 0) {
			i.log(event.AgentCondemned, i.who.Path+" is ended as a failure: "+a.Reason, a, nil)
		}
	}
	i.mu.Lock()
	i.checking = false
	i.arm()
	i.mu.Unlock()
}

// log writes an event about an action.
func (i *Incarnation) log(kind event.Type, message string, a liveness.Action, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	data["cause"], data["reason"] = a.Cause.String(), a.Reason
	i.m.opts.Append(i.m.event(kind, i.who, message).With(data))
}

// probe logs what can be observed of a suspected agent from outside. Output does not count as a sign
// of life, but helps to understand what happened.
func (i *Incarnation) probe(ctx context.Context, s runtime.Session, a liveness.Action, state liveness.State) {
	o := s.Observe()
	seen := fmt.Sprintf("process %d", o.PID)
	data := map[string]any{"pid": o.PID}
	doing := ""
	if o.Node == "" {
		doing = proc.Doing(o.PID)
	}
	if doing != "" {
		seen += " is " + doing
		data["process"] = doing
	} else {
		seen += " is running"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if last, err := s.LastActivity(ctx); err == nil && last.After(o.StartedAt) {
		ago := max(0, time.Since(last))
		seen += fmt.Sprintf(", last output %v ago", ago.Round(time.Second))
		data["output_age_seconds"] = ago.Seconds()
	}
	if claim := liveness.Claim(state.Number, state.Note); claim != "" {
		data["claim"] = claim
	}
	i.log(event.AgentUnresponsive, fmt.Sprintf("%s: %s; %s", i.who.Path, a.Reason, seen), a, data)
}
