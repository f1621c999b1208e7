package eval

import (
	"fmt"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/supervisor"
)

// tracedTree records which part of a program's tree is in its trace. Supervisors
// report what they have done from a goroutine of their own, later than agents
// tell what they do. The starts that lead to an agent are traced where the agent
// traceChildStart, so that they come first.
type tracedTree struct {
	mu          sync.Mutex
	agents      map[string]struct{} // that have begun
	supervisors map[string]bool     // that have begun; whether their first start was reported, too
}

// traceChildStart traces that an agent at a path begins: before it, the supervisors above
// it that have not begun yet; if it has begun before, its restart. Levels is how
// many supervisors of the program are above it.
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

// restartTraced reports whether the restart of an agent was traced where it began.
func (t *tracedTree) restartTraced(agent string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, is := t.agents[agent]
	return is
}

// firstStartTraced reports whether a start of a supervisor is its first one, and was
// traced where an agent below it began.
func (t *tracedTree) firstStartTraced(supervisor string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	reported, begun := t.supervisors[supervisor]
	if begun {
		t.supervisors[supervisor] = true
	}
	return begun && !reported
}

// Traced makes what a supervisor does a part of the trace, if there is one.
// Spec sees to it that it is told of all that happens in its tree. An agent that
// is run alone has no supervisor that the program knows of.
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
