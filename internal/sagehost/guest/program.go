package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/sagehost/command"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/run"
	"github.com/coppice-dev/coppice/supervisor"
)

// Program is the program of this process. It implements server.Program.
type Program struct {
	agents map[string]func(context.Context) error // by path
	memory int64

	mu      sync.Mutex
	running map[string]*member // by path
}

// member is an agent that runs.
type member struct {
	*server.Function
	beliefs *beliefs
}

var _ server.Program = (*Program)(nil)

// Open opens the program of a bundle. It is a server.OpenProgram.
func Open(bundle io.Reader, trace *os.File) (server.Program, error) {
	b, err := decode(bundle)
	if err != nil {
		return nil, err
	}
	info, err := b.check()
	if err != nil {
		return nil, err
	}
	p := &Program{memory: b.Memory, agents: map[string]func(context.Context) error{}, running: map[string]*member{}}
	o := run.Options{
		Host: services{p}, Child: child, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		// The values of an agent reach its limit before the process does: then only that agent fails.
		Limits: eval.Limits{Program: b.Memory / 2, Memory: b.Memory / 8},
	}
	if trace != nil {
		o.Trace = trace
	}
	program, err := run.Open(&b.Program, info, o)
	if err != nil {
		return nil, err
	}
	tree, err := program.Tree()
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	p.add(&tree, b.Top)
	return p, nil
}

// child stands for an agent of the coppice.toml, which runs elsewhere: only its name is needed.
func child(name string) (supervisor.ChildSpec, error) { return supervisor.ChildSpec{ID: name}, nil }

// add adds the agents below a supervisor.
func (p *Program) add(s *supervisor.Spec, path string) {
	for _, c := range s.Children {
		switch at := path + "/" + c.ID; {
		case c.Supervisor != nil:
			p.add(c.Supervisor, at)
		case c.Run != nil:
			p.agents[at] = c.Run
		}
	}
}

// Memory is part of server.Program.
func (p *Program) Memory() int64 { return p.memory }

// Run is part of server.Program.
func (p *Program) Run(ctx context.Context, f *server.Function) error {
	agent := p.agents[f.Path()]
	if agent == nil {
		return fmt.Errorf("the program has no agent %s", f.Path())
	}
	m := &member{f, newBeliefs(f)}
	p.mu.Lock()
	p.running[f.Path()] = m
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		if p.running[f.Path()] == m {
			delete(p.running, f.Path())
		}
		p.mu.Unlock()
		m.beliefs.close()
	}()
	return agent(host.WithAgent(ctx, host.Agent{Path: f.Path(), Incarnation: f.Incarnation()}))
}

// member returns the agent at a path, or else the one that has summoned it, and the rest of the path.
// It returns nil if that does not run.
func (p *Program) member(path string) (m *member, below string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := path; ; {
		if m := p.running[at]; m != nil {
			return m, strings.TrimPrefix(path[len(at):], "/")
		}
		i := strings.LastIndexByte(at, '/')
		if i < 0 {
			return nil, ""
		}
		at = at[:i]
	}
}

// services implements host.Host.
type services struct{ p *Program }

var errNotRunning = errors.New("its agent does not run")

func (s services) OpenBeliefs(ctx context.Context, a host.Agent, names []string) (map[string]string, error) {
	m, below := s.p.member(a.Path)
	if m == nil {
		return nil, errNotRunning
	}
	return m.beliefs.open(ctx, below, names)
}

func (s services) SaveBeliefs(ctx context.Context, a host.Agent, values map[string]string) error {
	m, below := s.p.member(a.Path)
	if m == nil {
		return errNotRunning
	}
	return m.beliefs.save(ctx, below, values)
}

// CloseBeliefs does nothing: the daemon closes them with the incarnation.
func (services) CloseBeliefs(host.Agent) {}

// RunCommand runs a command that ends with its agent.
func (s services) RunCommand(ctx context.Context, c host.Command) (host.CommandResult, error) {
	r := command.Runner{}
	if m, _ := s.p.member(host.AgentOf(ctx).Path); m != nil {
		r.Prepare = m.Adopt
	}
	return r.RunCommand(ctx, c)
}

func (services) ReadAnswer(format string, r host.CommandResult) (string, error) {
	return command.Runner{}.ReadAnswer(format, r)
}

// Print writes a line to the slot of an agent. Lines of a summoned agent begin with its name.
func (s services) Print(path string, stderr bool, line string) {
	m, below := s.p.member(path)
	if m == nil {
		return
	}
	if below != "" {
		line = below + ": " + line
	}
	stream := proc.Stdout
	if stderr {
		stream = proc.Stderr
	}
	m.Print(stream, line)
}

func (s services) Started(_ context.Context, a host.Agent) {
	if m, _ := s.p.member(a.Path); m != nil && m.Incarnation() == a.Incarnation {
		m.Ready()
	}
}
