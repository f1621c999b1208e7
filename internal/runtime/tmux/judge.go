package tmux

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// evidence is all that is known about the last incarnation of a slot.
type evidence struct {
	rec    *record
	end    *wire.End        // its exit record; nil if there is none
	agent  proc.Observation // of its process
	server proc.Observation // of the server that it was started in
	answer answer           // of the current server
}

// gather collects the evidence about an incarnation.
func gather(dir string, rec *record, a answer) evidence {
	e := evidence{rec: rec, answer: a, agent: proc.Observe(rec.Agent), server: proc.Observe(rec.Server)}
	if r, err := wire.ReadRecord(dir); err == nil && r.Incarnation == rec.Incarnation {
		e.end = &r.End
	}
	return e
}

// verdict is the conclusion from the evidence.
type verdict struct {
	life    runtime.Life
	why     error     // if Unknown
	pending bool      // if Unknown: tmux will know in a moment
	cutOff  bool      // if Unknown: the agent runs without its server, and must be killed
	end     *wire.End // if Dead: as it was recorded
	pane    *paneInfo // if Dead or pending: the pane in tmux; nil if the end was not observed
	lost    error     // if Dead and pane is nil
}

// judge decides the state of an incarnation.
func judge(e evidence) verdict {
	if e.end != nil {
		return verdict{life: runtime.Dead, end: e.end}
	}
	unknown := func(err error) verdict { return verdict{why: err} }
	ours := e.answer.err == nil && e.answer.server == e.rec.Server.PID && e.server == proc.Alive
	switch {
	case e.agent == proc.Unknown:
		return unknown(fmt.Errorf("the state of process %d is unknown", e.rec.Agent.PID))
	case !ours && e.server == proc.Dead && e.agent == proc.Alive:
		v := unknown(fmt.Errorf("process %d is running, but its tmux server has ended", e.rec.Agent.PID))
		v.cutOff = true
		return v
	case !ours && e.server == proc.Dead:
		return verdict{life: runtime.Dead, lost: errors.New("its tmux server has ended")}
	case !ours && e.answer.err != nil:
		return unknown(e.answer.err)
	case !ours:
		return unknown(fmt.Errorf("tmux server %d cannot be reached, server %d responds instead", e.rec.Server.PID,
			e.answer.server))
	case e.agent == proc.Alive:
		return verdict{life: runtime.Alive}
	}
	p := e.answer.pane(e.rec.Pane)
	switch {
	case p == nil:
		return verdict{life: runtime.Dead, lost: errors.New("its tmux session was closed")}
	case p.pid != e.rec.Agent.PID:
		return verdict{life: runtime.Dead, lost: errors.New("another program was started in its tmux pane")}
	case !p.ended:
		v := unknown(errors.New("tmux has not seen its end yet"))
		v.pending, v.pane = true, p
		return v
	}
	return verdict{life: runtime.Dead, pane: p}
}

// exit returns how a dead incarnation without an exit record has ended.
func (v verdict) exit(asked proc.Asked, tail []string) supervisor.Exit {
	if v.pane == nil {
		return supervisor.Exit{Kind: supervisor.Lost, Err: v.lost}
	}
	if v.pane.status < 0 && v.pane.signal == 0 { // before tmux 3.3
		switch {
		case asked.Kill:
			return supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled}
		case asked.Stop:
			return supervisor.Exit{Kind: supervisor.ShutDown}
		}
		return supervisor.Exit{Kind: supervisor.Failure,
			Err: errors.New("ended by a signal that this version of tmux does not report")}
	}
	ws := syscall.WaitStatus(v.pane.signal)
	if v.pane.signal == 0 {
		ws = syscall.WaitStatus(v.pane.status << 8)
	}
	return proc.Classify(ws, asked, func() []string { return tail })
}

// at returns when the incarnation ended: when that was seen, or earlier if tmux says so.
func (v verdict) at(rec *record, seen time.Time) time.Time {
	if v.pane != nil && !v.pane.at.IsZero() && seen.Sub(v.pane.at) > 2*time.Second { // tmux counts seconds
		seen = v.pane.at
	}
	if seen.Before(rec.StartedAt) {
		return rec.StartedAt
	}
	return seen
}
