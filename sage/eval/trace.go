package eval

import (
	"fmt"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/supervisor"
)

// tracedTree records which supervisors and agents are in the trace. Supervisors report events from
// their own goroutine, later than agents report theirs. So the starts that lead to an agent are
// traced where the agent begins, in the right order.
type tracedTree struct {
	mu          sync.Mutex
	agents      map[string]struct{} // agents that have begun
	supervisors map[string]bool     // those that have begun; true if their first start was reported
}

// traceChildStart traces the start of an agent. Supervisors above it that are not in the trace
// come first; if the agent has run before, its restart follows. Levels is the number of
// supervisors of the program above it.
func (in *Instance) traceChildStart(path string, levels int, incarnation uint64) {
	if !in.tracing() || levels == 0 {
		return
	}
	t := &in.traced
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.agents == nil {
		t.agents, t.supervisors = map[string]struct{}{}, map[string]bool{}
	}
	names := strings.Split(path, "/")
	for n := max(len(names)-levels, 1); n < len(names); n++ {
		above := strings.Join(names[:n], "/")
		if _, begun := t.supervisors[above]; !begun {
			t.supervisors[above] = false
			in.trace(above, map[string]any{"kind": "supervisor.start"})
		}
	}
	if _, begun := t.agents[path]; begun {
		in.trace(path, map[string]any{"kind": "supervisor.child.restart", "incarnation": incarnation})
	}
	t.agents[path] = struct{}{}
}

// restartTraced reports whether restarts of an agent are traced where it begins.
func (t *tracedTree) restartTraced(agent string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, is := t.agents[agent]
	return is
}

// firstStartTraced reports whether a start of a supervisor is its first one and was traced where
// an agent below it began.
func (t *tracedTree) firstStartTraced(supervisor string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	reported, begun := t.supervisors[supervisor]
	if begun {
		t.supervisors[supervisor] = true
	}
	return begun && !reported
}

// Traced writes an event of a supervisor to the trace, if there is one. The tree that Spec returns
// calls it on its own. An agent that runs alone has no supervisor that the program declares.
func (in *Instance) Traced(e supervisor.Event) {
	if !in.tracing() || in.p.info.Entry == nil || in.p.info.Entry.Agent != nil {
		return
	}
	h := e.Header()
	switch x := e.(type) {
	case supervisor.SupervisorStarted:
		if !in.traced.firstStartTraced(h.Path()) {
			in.trace(h.Path(), map[string]any{"kind": "supervisor.start"})
		}
	case supervisor.ChildStarted:
		if x.Restart && !in.traced.restartTraced(h.Path()) {
			in.trace(h.Path(), map[string]any{"kind": "supervisor.child.restart", "incarnation": h.Incarnation})
		}
	case supervisor.SupervisorStopping:
		if x.Reason == supervisor.ReasonLimitEscalate {
			in.trace(h.Path(), map[string]any{"kind": "supervisor.circuit_breaker", "message": fmt.Sprint(x.Err)})
		}
	}
}
