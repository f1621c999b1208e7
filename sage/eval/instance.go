package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/llm"
	"github.com/coppice-dev/coppice/sage/tools"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options connect a program to its surroundings. With the zero value it prints nothing, forgets
// its beliefs and has no model.
type Options struct {
	// Name is the first segment of all paths. If it is empty, the name of the entry is used.
	// Beliefs are stored by path.
	Name string

	Output host.Output // of print and print_err; nil: discarded
	In     io.Reader   // of read_line and read_all; nil: empty

	// Trace receives events as NDJSON: {"t": milliseconds since 1970, "kind": …, "agent": path}.
	// If it is nil, there are no events.
	Trace io.Writer

	Beliefs host.Beliefs // nil: host.NewMemory()
	Oracle  llm.Oracle   // nil: divine fails with ErrNotConfigured
	Tools   tools.Settings
	Lookup  func(string) (string, bool) // for env; nil: os.LookupEnv

	Limits   Limits
	Shutdown time.Duration // the time to stop an agent; supervisor.DefaultShutdown if zero

	// Limit is the restart limit of each supervisor; Escalating(5, 60 s) if zero.
	Limit supervisor.Limit
	// Process returns the specification of a child that is named in quotes. If it is nil, such
	// children are errors.
	Process func(name string) (supervisor.ChildSpec, error)
	// OnEvent receives the events of the tree.
	OnEvent func(supervisor.Event)

	Log *slog.Logger // for failures that stop no agent; nil: discarded
}

// Instance is a program in its surroundings. It has to be closed.
type Instance struct {
	p        *Program
	o        Options // with defaults filled in
	tools    *toolset
	mocks    *mocks       // nil outside of tests
	summoned atomic.Int64 // number of running summoned agents
	reserved atomic.Int64 // bytes of memory that machines have reserved; see Limits.Program

	input   input
	traced  tracedTree
	traceMu sync.Mutex // serializes writes to o.Trace

	agentsMu sync.Mutex
	agents   map[string]*agent // running agents by path
}

// New returns an instance of the program.
func (p *Program) New(o Options) *Instance {
	o.Limits = o.Limits.withDefaults()
	o.Shutdown = cmp.Or(max(o.Shutdown, 0), supervisor.DefaultShutdown)
	if o.Limit == (supervisor.Limit{}) {
		o.Limit = supervisor.Escalating(supervisor.DefaultMaxRestarts, supervisor.DefaultWithin)
	}
	if o.Beliefs == nil {
		o.Beliefs = host.NewMemory()
	}
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Output == nil {
		o.Output = host.NewOutput(io.Discard, io.Discard)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.In == nil {
		o.In = strings.NewReader("")
	}
	return &Instance{p: p, o: o, tools: newToolset(o.Tools), input: newInput(o.In), agents: map[string]*agent{}}
}

// Close closes the tools of the program. All its agents must have ended.
func (in *Instance) Close() error { return in.tools.close() }

// ErrNothingToRun means that the program does not end with a run.
var ErrNothingToRun = errors.New("the program runs nothing: there is no run at its end")

// Spec returns the program as a tree of supervisors. An agent that runs alone is the only child of
// a supervisor of the same name, which fails if the agent does. The tree ends when nothing in it
// runs or will be restarted.
func (in *Instance) Spec() (supervisor.Spec, error) {
	entry := in.p.info.Entry
	if entry == nil {
		return supervisor.Spec{}, ErrNothingToRun
	}
	var spec supervisor.Spec
	if a := entry.Agent; a != nil {
		init := in.p.entryInit(entry)
		name := a.Object.Name
		child := in.child(childPlace{code: in.p.agents[a], init: init, restart: supervisor.Transient,
			handle: in.newChildHandle(name)})
		child.ID = name
		spec = supervisor.Spec{
			Name: name, Limit: supervisor.Escalating(0, time.Second), StartFailure: supervisor.Retry,
			Children: []supervisor.ChildSpec{child},
		}
	} else {
		var err error
		if spec, err = in.tree(entry.Supervisor, entry.Supervisor.Object.Name, 1); err != nil {
			return supervisor.Spec{}, err
		}
		spec.Name = entry.Supervisor.Object.Name
	}
	if in.o.Name != "" {
		spec.Name = in.o.Name
	}
	spec.AutoShutdown = supervisor.WhenDone
	spec.OnEvent = in.o.OnEvent
	if in.tracing() {
		spec.OnEvent = func(e supervisor.Event) {
			in.Traced(e)
			if in.o.OnEvent != nil {
				in.o.OnEvent(e)
			}
		}
	}
	return spec, nil
}

func (p *Program) entryInit(e *check.Entry) beliefInit {
	if e.Decl == nil || len(e.Decl.Inits) == 0 {
		return nil
	}
	return p.childInit(&check.Child{Agent: e.Agent, Beliefs: e.Decl.Inits})
}

// tree returns the specification of a supervisor and all its children.
func (in *Instance) tree(s *check.Supervisor, path string, depth int) (supervisor.Spec, error) {
	if depth > supervisor.MaxDepth {
		return supervisor.Spec{}, fmt.Errorf("%s is nested deeper than %d levels", s.Object.Name, supervisor.MaxDepth)
	}
	spec := supervisor.Spec{Limit: in.o.Limit, StartFailure: supervisor.Retry, Strategy: [...]supervisor.Strategy{
		check.OneForOne: supervisor.OneForOne, check.OneForAll: supervisor.OneForAll,
		check.RestForOne: supervisor.RestForOne,
	}[s.Strategy]}
	ids := childIDs(s)
	siblings := map[*check.Object]*Handle{}
	handles := make([]*Handle, len(s.Children))
	for i, c := range s.Children {
		if c.Agent != nil {
			handles[i] = in.newChildHandle(path + "/" + ids[i])
			if c.Name != nil {
				siblings[c.Name] = handles[i]
			}
		}
	}
	for i, c := range s.Children {
		var child supervisor.ChildSpec
		restart := [...]supervisor.Restart{
			check.Permanent: supervisor.Permanent, check.Transient: supervisor.Transient,
			check.Temporary: supervisor.Temporary,
		}[c.Restart]
		switch {
		case c.Agent != nil:
			child = in.child(childPlace{in.p.agents[c.Agent], in.p.inits[c], restart, handles[i], siblings, depth})
		case c.Supervisor != nil:
			nested, err := in.tree(c.Supervisor, path+"/"+ids[i], depth+1)
			if err != nil {
				return supervisor.Spec{}, err
			}
			child = supervisor.ChildSpec{Supervisor: &nested}
		default:
			if in.o.Process == nil {
				return supervisor.Spec{}, fmt.Errorf("%v: the child %q is an agent of the project's file, "+
					"and there is none here", c.Node.Extent().Position(), c.Process)
			}
			var err error
			if child, err = in.o.Process(c.Process); err != nil {
				return supervisor.Spec{}, fmt.Errorf("%v: %w", c.Node.Extent().Position(), err)
			}
		}
		child.ID, child.Restart = ids[i], restart
		spec.Children = append(spec.Children, child)
	}
	return spec, nil
}

// childIDs returns the names of the children of a supervisor in paths. A child without a name gets
// that of its agent or supervisor, with a number from the second one on.
func childIDs(s *check.Supervisor) []string {
	ids := make([]string, len(s.Children))
	used, count := map[string]bool{}, map[string]int{}
	for i, c := range s.Children {
		switch {
		case c.Name != nil:
			ids[i] = c.Name.Name
		case c.Agent == nil && c.Supervisor == nil:
			ids[i] = c.Process
		}
		used[ids[i]] = true
	}
	for i, c := range s.Children {
		if ids[i] != "" {
			continue
		}
		var name string
		if c.Agent != nil {
			name = c.Agent.Object.Name
		} else {
			name = c.Supervisor.Object.Name
		}
		for ids[i] == "" || used[ids[i]] {
			count[name]++
			ids[i] = numbered(name, count[name])
		}
		used[ids[i]] = true
	}
	return ids
}

// Pause makes all running agents take no messages. It returns when those that wait for messages
// have run on pause, or when ctx ends. Other agents pause at their next wait.
func (in *Instance) Pause(ctx context.Context) {
	for _, paused := range in.setPaused(true) {
		select {
		case <-paused:
		case <-ctx.Done():
			return
		}
	}
}

// Resume ends Pause.
func (in *Instance) Resume() { in.setPaused(false) }

func (in *Instance) setPaused(paused bool) (noted []<-chan struct{}) {
	in.agentsMu.Lock()
	defer in.agentsMu.Unlock()
	for _, a := range in.agents {
		if n := a.box.pause(paused); n != nil {
			noted = append(noted, n)
		}
	}
	return noted
}

// register adds an agent to the running ones until the returned function is called.
func (in *Instance) register(a *agent) (unregister func()) {
	in.agentsMu.Lock()
	in.agents[a.path] = a
	in.agentsMu.Unlock()
	in.traceIf(a.path, "agent.start")
	return func() {
		in.traceIf(a.path, "agent.end")
		in.agentsMu.Lock()
		defer in.agentsMu.Unlock()
		if in.agents[a.path] == a {
			delete(in.agents, a.path)
		}
	}
}

func (in *Instance) tracing() bool { return in.o.Trace != nil }

func (in *Instance) traceIf(path, kind string) {
	if in.tracing() {
		in.trace(path, map[string]any{"kind": kind})
	}
}

// trace writes an event to the trace.
func (in *Instance) trace(path string, event map[string]any) {
	event["t"] = time.Now().UnixMilli()
	event["agent"] = path
	text, err := json.Marshal(event)
	if err != nil {
		return
	}
	in.traceMu.Lock()
	defer in.traceMu.Unlock()
	_, _ = in.o.Trace.Write(append(text, '\n'))
}

// Run runs the program until it ends. The end of ctx stops it in order. The error is nil after a
// clean end, else the reason why the tree failed; see Reason.
func (in *Instance) Run(ctx context.Context) error {
	spec, err := in.Spec()
	if err != nil {
		return err
	}
	s, err := supervisor.Launch(ctx, spec)
	if err != nil {
		return err
	}
	return in.Reason(s.Wait())
}

// Reason returns the error of the program from the error of its tree. For an agent that runs alone
// it is the agent's own error.
func (in *Instance) Reason(err error) error {
	var limit *supervisor.LimitError
	if in.p.info.Entry.Agent != nil && errors.As(err, &limit) && limit.Exit.Err != nil {
		return limit.Exit.Err
	}
	return err
}
