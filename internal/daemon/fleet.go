// Package daemon puts the parts of Coppice together for one project: the
// desired tree becomes supervisors whose leaves are running agents.
package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Observer is told what happens in a fleet. Its functions may be slow: agents
// wait for Output when their pipes are full, nobody ever waits for Event.
type Observer struct {
	// Event is called from one goroutine.
	Event func(supervisor.Event)
	// Output is called for each line of an agent, from many goroutines.
	Output func(agent supervisor.Self, line proc.Line)
}

// Fleet is a running tree.
type Fleet struct {
	*supervisor.Supervisor
	Root *spec.Node // of the desired tree

	observer Observer
	nodes    map[string]*spec.Node // by path

	mu    sync.Mutex
	procs map[string][]*proc.Process // by path; the last one is the newest, others still have output
}

// Launch starts a tree and does not wait for it: see supervisor.Launch. The
// fleet ends by itself when no agent runs or will run again.
func Launch(ctx context.Context, tree *spec.Tree, o Observer) (*Fleet, error) {
	f := &Fleet{Root: tree.Root, observer: o, nodes: make(map[string]*spec.Node), procs: make(map[string][]*proc.Process)}
	for path, c := range tree.All() {
		if c.Node != nil {
			f.nodes[path] = c.Node
		}
	}
	root, err := (&builder{start: f.start}).node(tree.Root, tree.Root.Name)
	if err != nil {
		return nil, err
	}
	if root.AutoShutdown == supervisor.NeverShutdown {
		root.AutoShutdown = supervisor.WhenDone
	}
	root.OnEvent = f.event
	f.Supervisor, err = supervisor.Launch(ctx, *root)
	return f, err
}

func (f *Fleet) event(e supervisor.Event) {
	if f.observer.Event != nil {
		f.observer.Event(e)
	}
}

// start is the Start function of an agent.
func (f *Fleet) start(a *spec.Agent, signal syscall.Signal) (func(context.Context) (supervisor.Process, error), error) {
	ready, err := probe(a.Ready)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (supervisor.Process, error) {
		self, _ := supervisor.SelfOf(ctx)
		var stdin *os.File
		defer func() { stdin.Close() }() // the process has its own copy
		p, err := proc.Child(func(context.Context) (proc.Command, proc.Output, error) {
			cmd := proc.Command{
				Argv: a.Command, Dir: a.Dir, Env: proc.Environ(a.Env, self.Path, self.Incarnation),
				StopSignal: signal, Grace: a.Shutdown.Grace,
			}
			if a.Stdin != "" {
				var err error
				if stdin, err = os.Open(a.Stdin); err != nil {
					return cmd, proc.Output{}, fmt.Errorf("opening stdin: %w", err)
				}
				cmd.Stdin = stdin
			}
			return cmd, f.output(self), nil
		}, ready)(ctx)
		if err != nil {
			return nil, err
		}
		if running, ok := p.(*proc.Process); ok {
			f.remember(self.Path, running)
		}
		return p, nil
	}, nil
}

// remember keeps a process, and those before it whose output has not ended.
func (f *Fleet) remember(path string, p *proc.Process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	procs := slices.DeleteFunc(f.procs[path], func(p *proc.Process) bool {
		select {
		case <-p.Drained():
			return true
		default:
			return false
		}
	})
	f.procs[path] = append(procs, p)
}

// drainTime is how long Wait waits for output. A descendant that left its
// agent's group is listened to for a second.
const drainTime = 2 * time.Second

// Wait waits until the fleet has ended, as supervisor.Wait does, and then for
// the last lines of its agents: Observer.Output comes no later, unless it
// takes longer than drainTime itself.
func (f *Fleet) Wait() error {
	err := f.Supervisor.Wait()
	f.mu.Lock()
	procs := slices.Concat(slices.Collect(maps.Values(f.procs))...)
	f.mu.Unlock()
	late := time.NewTimer(drainTime)
	defer late.Stop()
	for _, p := range procs {
		select {
		case <-p.Drained():
		case <-late.C:
			return err
		}
	}
	return err
}

// output says where the lines of one incarnation go.
func (f *Fleet) output(self supervisor.Self) proc.Output {
	if f.observer.Output == nil {
		return proc.Output{}
	}
	return proc.Output{Line: func(l proc.Line) { f.observer.Output(self, l) }}
}

// probe translates a readiness condition; nil where there is none.
func probe(r spec.Ready) (proc.Probe, error) {
	switch {
	case r.Log != "":
		re, err := regexp.Compile(r.Log)
		if err != nil {
			return nil, fmt.Errorf("ready.log: %w", err)
		}
		return proc.Log{Pattern: re}, nil
	case r.TCP != "":
		return proc.TCP{Address: r.TCP}, nil
	case r.HTTP != "":
		return proc.HTTP{URL: r.HTTP}, nil
	case len(r.Exec) > 0:
		return proc.Exec{Argv: r.Exec}, nil
	case r.Notify:
		return proc.Notify{}, nil
	}
	return nil, nil
}

// Status is a node of the running tree at one moment.
type Status struct {
	supervisor.ChildInfo
	Path  string
	Depth int        // below the root
	Node  *spec.Node // of a supervisor; nil for an agent
	PID   int        // of an agent that runs
	Last  bool       // the last one of its siblings
}

// Status lists the whole tree, parents before their children. It is made of
// one answer of each supervisor; a fleet that has ended has none left.
func (f *Fleet) Status() []Status {
	return f.walk(nil, f.Supervisor, 1)
}

func (f *Fleet) walk(all []Status, s *supervisor.Supervisor, depth int) []Status {
	children, err := s.Children()
	if err != nil {
		return all
	}
	for i, c := range children {
		st := Status{ChildInfo: c, Path: s.Path() + "/" + c.ID, Depth: depth, Last: i == len(children)-1}
		st.Node = f.nodes[st.Path]
		if st.Node == nil && (c.State == supervisor.Running || c.State == supervisor.Stopping) {
			f.mu.Lock()
			if procs := f.procs[st.Path]; len(procs) > 0 {
				st.PID = procs[len(procs)-1].PID()
			}
			f.mu.Unlock()
		}
		all = append(all, st)
		if c.Sub != nil {
			all = f.walk(all, c.Sub, depth+1)
		}
	}
	return all
}
