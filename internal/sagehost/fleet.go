package sagehost

import (
	"context"
	"fmt"
	"syscall"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// fleet holds the agents of the project's coppice.toml, which supervisors of a program can have as
// children. They are child processes of this process and end with it. Agents that must outlive it
// need the daemon.
type fleet struct {
	agents map[string]*spec.Agent // by name
	output func(string, uint64, proc.Line)
}

func newFleet(file string, o RunOptions) (*fleet, error) {
	tree, err := config.Load(file)
	if err == nil && o.Fleet != nil {
		err = o.Fleet(tree)
	}
	if err != nil {
		return nil, err
	}
	return &fleet{agents: processes(tree), output: o.Output}, nil
}

// processes returns the agents of a tree that programs can have as children, by name. The defaults of
// the file do not apply in a program: as in OTP, restarts are immediate and count for the supervisor.
func processes(tree *spec.Tree) map[string]*spec.Agent {
	agents := map[string]*spec.Agent{}
	for _, c := range tree.All() {
		if c.Agent == nil || c.Agent.Program != nil {
			continue
		}
		a := *c.Agent
		if a.DefaultLimit {
			a.Limit, a.DefaultLimit = supervisor.Limit{}, false
		}
		if a.DefaultBackoff {
			a.Backoff, a.DefaultBackoff = supervisor.Backoff{}, false
		}
		agents[a.Name] = &a
	}
	return agents
}

// child returns an agent as a child. The program sets its restart policy.
func (f *fleet) child(name string) (supervisor.ChildSpec, error) {
	a := f.agents[name]
	if a == nil {
		return supervisor.ChildSpec{}, fmt.Errorf("%s names no agent %s", config.FileName, spec.Quote(name))
	}
	if a.Runtime != spec.Proc || a.Terminal {
		return supervisor.ChildSpec{}, fmt.Errorf("agent %s needs a terminal, which only the daemon provides",
			spec.Quote(name))
	}
	if a.Notify {
		return supervisor.ChildSpec{}, fmt.Errorf("agent %s uses sd_notify, which only the daemon supports",
			spec.Quote(name))
	}
	if a.User != "" {
		return supervisor.ChildSpec{}, fmt.Errorf("agent %s has its own user, which only the daemon supports",
			spec.Quote(name))
	}
	_, signal, _ := spec.ParseSignal(a.Shutdown.Signal) // was checked
	c := supervisor.ChildSpec{
		ID: a.Name, Backoff: a.Backoff, Limit: a.Limit, Shutdown: a.Shutdown.Grace, StartTimeout: a.Ready.Timeout,
		Start: func(ctx context.Context) (supervisor.Process, error) { return f.start(ctx, a, signal) },
	}
	if signal == syscall.SIGKILL {
		c.Shutdown = supervisor.BrutalKill
	}
	return c, nil
}

func (f *fleet) start(ctx context.Context, a *spec.Agent, signal syscall.Signal) (supervisor.Process, error) {
	self, _ := supervisor.SelfOf(ctx)
	cmd := proc.Command{
		Argv: a.Command, Dir: a.Dir, StopSignal: signal,
		Env:             proc.Environ(a.Env, proc.Self{Agent: self.Path, Incarnation: self.Incarnation}),
		NoNewPrivileges: a.NoNewPrivileges, Paths: landlock.New(a.ReadWritePaths, a.ReadOnlyPaths),
	}
	if a.Stdin != "" {
		in, err := proc.OpenStdin(a.Stdin)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		cmd.Stdin = in
	}
	var out proc.Output
	if f.output != nil {
		out.Line = func(l proc.Line) { f.output(self.Path, self.Incarnation, l) }
	}
	probe, err := ready.ProbeOf(a.Ready, nil)
	if err != nil {
		return nil, err
	}
	p, await, err := ready.Begin(cmd, out, probe)
	if err != nil {
		return nil, err
	}
	if err := await(ctx); err != nil {
		p.End(a.Shutdown.Grace)
		return nil, err
	}
	return p, nil
}
