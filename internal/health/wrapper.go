package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/health/programs"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
)

// The program of an agent can exit while its wrapper, such as an interactive shell or a script,
// still runs. The process of such an incarnation does not exit. For agents that name their programs
// (process_names), the monitor checks whether one of them runs. If none does, it keeps the last
// output and fails the incarnation.

// ProgramGoneError is the failure of an incarnation whose program has exited while its wrapper runs.
type ProgramGoneError struct {
	Names  []string // of the programs
	Output []string // the last lines of the agent
}

// LastOutput returns the last output of the agent before its wrapper was killed.
func (e *ProgramGoneError) LastOutput() []string { return e.Output }

func (e *ProgramGoneError) Error() string {
	return fmt.Sprintf("none of its processes is %s, while its wrapper still runs",
		strings.Join(e.Names, " or "))
}

// wrapperProbe is the state of the checks of one incarnation.
type wrapperProbe struct {
	seen   bool // the program has run
	missed bool // it did not run at the last check; one miss is no proof, since programs replace each other
}

// update takes the result of a check, and reports whether the program is gone. A program that was
// never seen has as much time as a start.
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

// RunWrapperProbes checks all agents that name their programs repeatedly until ctx ends, with the
// delay that pause returns before each check.
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
	byNode := make(map[string][]probed)
	for _, i := range m.started() {
		a := m.opts.Fleet.Spec(i.who.Path)
		if a == nil || len(a.ProcessNames) == 0 {
			continue
		}
		o := i.agent.Session().Observe()
		if o.Life == runtime.Alive && o.PID > 0 {
			byNode[o.Node] = append(byNode[o.Node], probed{i, a, o})
		}
	}
	var probing sync.WaitGroup
	for node, all := range byNode {
		probing.Go(func() { m.probeOn(ctx, node, all) })
	}
	probing.Wait()
}

// probeOn checks incarnations on a node.
func (m *Monitor) probeOn(ctx context.Context, node string, all []probed) {
	wanted := make([]programs.Wanted, len(all))
	for i, p := range all {
		wanted[i] = programs.Wanted{PID: p.observed.PID, Names: p.spec.ProcessNames}
	}
	runs, err := m.opts.Programs(ctx, node, wanted)
	if err != nil {
		m.opts.Logger.Debug("it is not known which programs run", "node", node, "error", err)
		return
	}
	for _, p := range all {
		is, known := runs[p.observed.PID]
		if !known {
			continue
		}
		if p.wrapper == nil {
			p.wrapper = &wrapperProbe{seen: showsReady(p.spec)}
		}
		if p.wrapper.update(is, time.Since(p.observed.StartedAt)) {
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

// showsReady reports whether an agent becomes ready by an action of its program. Then the program of
// a ready agent has run.
func showsReady(a *spec.Agent) bool {
	r := a.Ready
	return r.Log != "" || r.TCP != "" || r.HTTP != "" || len(r.Exec) > 0 || r.Notify
}

// lastLines is the number of output lines that a ProgramGoneError keeps.
const lastLines = 10

// failWrapper fails an incarnation whose program is gone.
func failWrapper(ctx context.Context, agent Agent, names []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	e := &ProgramGoneError{Names: names}
	if lines, err := agent.Session().Peek(ctx, lastLines); err == nil {
		for _, line := range lines {
			e.Output = append(e.Output, plaintext.Line(line))
		}
	}
	agent.Fail(e, 0)
}
