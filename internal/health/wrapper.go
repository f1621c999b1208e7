package health

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

// The program of an agent can be gone while the wrapper that it was started in lives on: a shell in
// a terminal, or a script that does not notice. The process of such an incarnation does not exit.
// For agents that name their programs (process_names), the monitor checks whether one of them runs,
// and otherwise keeps the last output and fails the incarnation.

// ProgramGoneError is the failure of an incarnation whose program is gone while its wrapper runs.
type ProgramGoneError struct {
	Names  []string // of the programs
	Output []string // the last lines of it
}

// LastOutput returns the last output of the agent: what its wrapper wrote when that was killed is none.
func (e *ProgramGoneError) LastOutput() []string { return e.Output }

func (e *ProgramGoneError) Error() string {
	return fmt.Sprintf("none of its processes is %s, while its wrapper still runs",
		strings.Join(e.Names, " or "))
}

// wrapperProbe is the state of the checks of one incarnation.
type wrapperProbe struct {
	seen   bool // its program ran
	missed bool // at the last check it did not: once is no proof, programs replace each other
}

// update takes the result of a check, and reports whether the program is gone. A program that was
// never seen may take as long as a start may take.
func (p *wrapperProbe) update(runs bool, uptime time.Duration) (gone bool) {
	if runs {
		p.seen, p.missed = true, false
		return false
	}
	if !p.seen && uptime < spec.DefaultReadyTimeout {
		return false
	}
	gone, p.missed = p.missed, true
	return gone
}

// RunWrapperProbes checks all agents that name their programs, again and again until ctx ends. The
// function pause returns the time between two checks.
func (m *Monitor) RunWrapperProbes(ctx context.Context, pause func() time.Duration) {
	for {
		select {
		case <-time.After(pause()):
		case <-ctx.Done():
			return
		}
		m.probeWrappers(ctx)
	}
}

// probed is an incarnation that is checked.
type probed struct {
	*Incarnation
	spec     *spec.Agent
	observed runtime.Observation
}

func (m *Monitor) probeWrappers(ctx context.Context) {
	living := make(map[proc.Identity]probed)
	var ids []proc.Identity
	for _, i := range m.started() {
		a := m.opts.Fleet.Spec(i.who.Path)
		if a == nil || len(a.ProcessNames) == 0 {
			continue
		}
		o := i.agent.Session().Observe()
		if o.Life != runtime.Alive || o.PID <= 0 {
			continue
		}
		if id, err := proc.Identify(o.PID); err == nil {
			living[id] = probed{i, a, o}
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	programs, err := proc.Programs(ids)
	if err != nil {
		m.opts.Logger.Debug("cannot list running programs", "error", err)
		return
	}
	for id, p := range living {
		all, known := programs[id]
		if !known {
			continue
		}
		if p.wrapper == nil {
			p.wrapper = &wrapperProbe{seen: showsReady(p.spec)}
		}
		if p.wrapper.update(runsAny(all, p.spec.ProcessNames), time.Since(p.observed.StartedAt)) {
			failWrapper(ctx, p.agent, p.spec.ProcessNames)
		}
	}
}

// started returns the incarnations for which Start was called.
func (m *Monitor) started() (all []*Incarnation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.incarnations {
		if i.Ready() {
			all = append(all, i)
		}
	}
	return all
}

// showsReady reports whether an agent became ready because its program has shown that: then it ran.
func showsReady(a *spec.Agent) bool {
	r := a.Ready
	return r.Log != "" || r.TCP != "" || r.HTTP != "" || len(r.Exec) > 0 || r.Notify
}

// maxComm is how many bytes the kernel keeps of the name of a program.
const maxComm = 15

func runsAny(programs, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(programs, name) || len(name) > maxComm && slices.Contains(programs, name[:maxComm])
	})
}

// lastLines is how many lines of output are kept of an incarnation whose program is gone.
const lastLines = 10

// failWrapper fails an incarnation whose program is gone.
func failWrapper(ctx context.Context, agent Agent, names []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	e := &ProgramGoneError{Names: names}
	if lines, err := agent.Session().Peek(ctx, lastLines); err == nil {
		for _, line := range lines {
			e.Output = append(e.Output, proc.Plain(line))
		}
	}
	agent.Fail(e, 0)
}
