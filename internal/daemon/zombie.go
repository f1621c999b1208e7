package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// An agent can be gone while what it was started in lives on: a shell in a
// terminal, a wrapper that does not notice. Such an incarnation is a zombie: no
// exit will ever be told of it. Who names the programs that the agent consists of
// (process_names) has it found, its last output kept, and the agent restarted as
// after a failure. (The Gas City seed, "Zombie Capture".)

// zombieError is why a zombie has ended.
type zombieError struct {
	names  []string
	output []string // the last that was seen of it
}

func (e *zombieError) Error() string {
	return fmt.Sprintf("none of its processes is %s any more, while what it was started in lives on", strings.Join(e.names, " or "))
}

// haunt is what is known of an incarnation that may become a zombie.
type haunt struct {
	seen   bool // its program ran
	missed bool // at the last look it did not: once is no proof, programs replace each other
}

// look takes in whether the program of an incarnation runs, and reports whether
// it is dead for certain. Who has never been seen may be on its way for as long
// as a start may take.
func (h *haunt) look(runs bool, lives time.Duration) (dead bool) {
	if runs {
		h.seen, h.missed = true, false
		return false
	}
	if !h.seen && lives < spec.DefaultReadyTimeout {
		return false
	}
	dead, h.missed = h.missed, true
	return dead
}

// lookForZombies looks at all agents that name their programs, at the pace of the
// patrol, until ctx ends.
func (c *Controller) lookForZombies(ctx context.Context) {
	haunts := make(map[*process]*haunt)
	for {
		t := time.NewTimer(c.fleet().patrol.Interval)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		c.lookAtHaunts(ctx, haunts)
	}
}

// lookAtHaunts is one look.
func (c *Controller) lookAtHaunts(ctx context.Context, haunts map[*process]*haunt) {
	f := c.fleet()
	living := make(map[proc.Identity]*process)
	observed := make(map[*process]runtime.Observation)
	var ids []proc.Identity
	for path, a := range f.agents {
		p := c.processes.of(path)
		if len(a.ProcessNames) == 0 || p == nil || isClosed(p.gone) {
			continue
		}
		o := p.session.Observe()
		if o.Life != runtime.Alive || o.PID <= 0 {
			continue
		}
		if id, err := proc.Identify(o.PID); err == nil {
			living[id], observed[p] = p, o
			ids = append(ids, id)
		}
	}
	for p := range haunts {
		if _, ok := observed[p]; !ok {
			delete(haunts, p)
		}
	}
	if len(ids) == 0 {
		return
	}
	programs, err := proc.Programs(ids)
	if err != nil {
		c.opts.Logger.Debug("cannot tell which programs run", "error", err)
		return
	}
	for id, p := range living {
		all, known := programs[id]
		o := observed[p]
		a := f.agents[o.Path]
		if !known || a == nil {
			continue
		}
		h := haunts[p]
		if h == nil {
			h = &haunt{seen: showsReady(a)}
			haunts[p] = h
		}
		if h.look(runsAny(all, a.ProcessNames), time.Since(o.StartedAt)) {
			c.bury(ctx, p, a.ProcessNames)
		}
	}
}

// showsReady reports whether an agent that is ready has shown that: its program
// has been there then.
func showsReady(a *spec.Agent) bool {
	r := a.Ready
	return r.Log != "" || r.TCP != "" || r.HTTP != "" || len(r.Exec) > 0 || r.Notify
}

// maxComm is how much the kernel keeps of the name of a program.
const maxComm = 15

func runsAny(programs, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(programs, name) || len(name) > maxComm && slices.Contains(programs, name[:maxComm])
	})
}

// bury ends a zombie. What there is to be seen of it is kept before.
func (c *Controller) bury(ctx context.Context, p *process, names []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	e := &zombieError{names: names}
	if lines, err := p.session.Peek(ctx, postMortemLines); err == nil {
		for _, line := range lines {
			e.output = append(e.output, proc.Plain(line))
		}
	}
	p.condemn(e, 0)
}
