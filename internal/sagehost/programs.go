package sagehost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/inproc"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/sagehost/command"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/run"
	"github.com/coppice-dev/coppice/supervisor"
)

// Programs holds the programs of a daemon. Their agents are functions of this process and leaves of
// the daemon's tree. Their output goes to the slots of a runtime, and their beliefs to the store of
// all agents' beliefs.
type Programs struct {
	// Prepare changes a program before it is opened; it may be nil.
	Prepare func(*load.Program) error

	log   *slog.Logger
	trace io.Writer // see run.Options

	mu      sync.Mutex
	runtime *inproc.Runtime         // nil until SetRuntime
	store   *belief.Store           // nil until SetBeliefs
	agents  map[string]*spec.Agent  // agents of programs by path; the daemon opens their beliefs
	running map[string]*run.Program // by the path of the topmost node
	opened  []*run.Program
}

// NewPrograms returns an empty set of programs.
func NewPrograms(l *slog.Logger, trace io.Writer) *Programs {
	return &Programs{
		log: l, trace: trace, agents: map[string]*spec.Agent{}, running: map[string]*run.Program{},
	}
}

// Sources are the inputs of a tree: files, the directories to watch for changes, and the revision of
// each part.
type Sources struct{ Files, Dirs, Revisions []string }

// With returns the union of both.
func (s Sources) With(more Sources) Sources {
	return Sources{
		Files:     slices.Concat(s.Files, more.Files),
		Dirs:      slices.Concat(s.Dirs, more.Dirs),
		Revisions: slices.Concat(s.Revisions, more.Revisions),
	}
}

// Project returns the program of a project, named by its grove.toml, as a tree. Its records are stored
// together with the beliefs of the project. With an error, the sources are those read so far.
func (p *Programs) Project(file string) (*spec.Tree, []*config.Notice, Sources, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, nil, Sources{}, err
	}
	sources := Sources{[]string{absolute}, []string{filepath.Dir(absolute)}, []string{""}}
	if text, _, err := load.Read(absolute); err == nil { // load.Read refuses a FIFO
		sum := sha256.Sum256([]byte(text))
		sources.Revisions[0] = hex.EncodeToString(sum[:])
	}
	files := new(recorder)
	program, err := load.Project(files, filepath.Dir(file))
	if err != nil {
		return nil, nil, sources, err
	}
	notices := files.grove.Notices
	if program.Base, err = os.Getwd(); err != nil {
		program.Base = "" // diagnostics then show absolute paths
	}
	agents, quotas, budgets := map[string]*spec.Agent{}, []spec.Quota(nil), []spec.Budget(nil)
	if program.Fleet.File != "" {
		all, err := config.LoadAll(program.Fleet.File)
		sources = sources.With(Sources{all.Sources, all.WatchDirs, []string{all.Revision}})
		if err != nil {
			return nil, notices, sources, err
		}
		agents, quotas, budgets = processes(all.Tree), all.Tree.Quotas, all.Tree.Budgets
	}
	part, err := p.open(program, agents)
	sources = sources.With(part.sources)
	if err != nil {
		return nil, notices, sources, err
	}
	tree := &spec.Tree{
		Root: part.node, Persistence: spec.Persistence{Backend: files.grove.Persistence.Backend},
		Patrol: spec.DefaultPatrol(), Quotas: quotas, Budgets: budgets,
	}
	if tree.Persistence.Backend == spec.SQLite {
		tree.Persistence.Path = files.grove.Persistence.Path.Value
	}
	if err := checkNames(tree); err != nil {
		return nil, notices, sources, err
	}
	p.put(part.node.Name, part.program, tree)
	return tree, notices, sources, nil
}

// Merge adds the program that a tree names to the tree. Agents of the tree that are children of the
// program move there. The returned sources are those of the program, also with an error.
func (p *Programs) Merge(tree *spec.Tree) (Sources, error) {
	root := tree.Root
	program, err := load.Find(Projects{}, root.Program)
	if err != nil {
		return Sources{}, fmt.Errorf("the program of the project: %w", err)
	}
	var sources Sources
	agents := processes(tree)
	program.Fleet.Agents = slices.Sorted(maps.Keys(agents))
	if s := program.Settings; s != nil {
		sources = Sources{[]string{s.File}, []string{filepath.Dir(s.File)}, []string{fmt.Sprint(s.Limit)}}
	}
	part, err := p.open(program, agents)
	sources = sources.With(part.sources)
	if err != nil {
		return sources, err
	}
	if err := merge(tree, part.node); err != nil {
		return sources, err
	}
	p.put(root.Name+"/"+part.node.Name, part.program, tree)
	return sources, nil
}

// open makes a program a part of a tree.
func (p *Programs) open(program *load.Program, agents map[string]*spec.Agent) (*part, error) {
	if p.Prepare != nil {
		if err := p.Prepare(program); err != nil {
			return new(part), err
		}
	}
	part, err := build(program, agents, run.Options{Host: daemonHost{Programs: p}, Trace: p.trace, Logger: p.log})
	if err != nil {
		return part, err
	}
	p.mu.Lock()
	p.opened = append(p.opened, part.program)
	p.mu.Unlock()
	for _, w := range part.warnings {
		p.log.Warn(fmt.Sprintf("%v: %s", w.Span.Position(), w.Message), "code", w.Code)
	}
	return part, nil
}

// put records the path of a program and its agents. An unchanged agent keeps its identity, so that a
// running one keeps its state, such as its mailbox.
func (p *Programs) put(path string, program *run.Program, tree *spec.Tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[path] = program
	var visit func(n *spec.Node, path string)
	visit = func(n *spec.Node, path string) {
		for i, c := range n.Children {
			at := path + "/" + c.Name()
			switch {
			case c.Node != nil:
				visit(c.Node, at)
			case c.Agent.Runtime == spec.InProcess:
				before := p.agents[at]
				if before != nil && before.Revision == c.Agent.Revision && before.Restart == c.Agent.Restart {
					n.Children[i].Agent = before
				}
				p.agents[at] = n.Children[i].Agent
			}
		}
	}
	visit(tree.Root, tree.Root.Name)
}

// SetRuntime selects the runtime with the slots of the agents from those of the daemon.
func (p *Programs) SetRuntime(all []runtime.Runtime) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		if r, is := r.(*inproc.Runtime); is {
			p.runtime = r
		}
	}
}

// SetBeliefs sets the store of beliefs. It does nothing if p is nil.
func (p *Programs) SetBeliefs(b *belief.Store) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store = b
}

// Traced returns an event handler that adds the events of programs' supervisors to their traces, and
// then calls next, which may be nil.
func (p *Programs) Traced(next func(supervisor.Event)) func(supervisor.Event) {
	if p.trace == nil {
		return next
	}
	return func(e supervisor.Event) {
		p.traceEvent(e)
		if next != nil {
			next(e)
		}
	}
}

func (p *Programs) traceEvent(e supervisor.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := e.Header().Path()
	for path, program := range p.running {
		if at == path || strings.HasPrefix(at, path+"/") {
			program.Traced(e)
		}
	}
}

// Close closes all programs. None of their agents may still run.
func (p *Programs) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, program := range p.opened {
		errs = append(errs, program.Close())
	}
	p.opened = nil
	return errors.Join(errs...)
}

// daemonHost implements host.Host for the programs of a daemon.
type daemonHost struct {
	*Programs
	command.Runner
}

var errNoBeliefs = errors.New("no beliefs are stored here")

// beliefs returns the store of beliefs. The daemon opens the beliefs of agents in its tree before they
// start.
func (h daemonHost) beliefs() (Beliefs, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store == nil {
		return Beliefs{}, errNoBeliefs
	}
	return Beliefs{Store: h.store, Opened: func(path string) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.agents[path] != nil
	}}, nil
}

func (h daemonHost) OpenBeliefs(ctx context.Context, a host.Agent, names []string) (map[string]string, error) {
	b, err := h.beliefs()
	if err != nil {
		return nil, err
	}
	return b.OpenBeliefs(ctx, a, names)
}

func (h daemonHost) SaveBeliefs(ctx context.Context, a host.Agent, values map[string]string) error {
	b, err := h.beliefs()
	if err != nil {
		return err
	}
	return b.SaveBeliefs(ctx, a, values)
}

func (h daemonHost) CloseBeliefs(a host.Agent) {
	if b, err := h.beliefs(); err == nil {
		b.CloseBeliefs(a)
	}
}

// Print writes a line to the slot of an agent.
func (h daemonHost) Print(path string, stderr bool, line string) {
	stream := proc.Stdout
	if stderr {
		stream = proc.Stderr
	}
	if r := h.slots(); r != nil {
		r.Say(path, stream, line)
	}
}

// Started reports a start to the runtime, which ignores an agent that was stopped meanwhile.
func (h daemonHost) Started(ctx context.Context, a host.Agent) {
	if r := h.slots(); r != nil {
		_ = r.Ready(ctx, a.Path, a.Incarnation)
	}
}

func (h daemonHost) slots() *inproc.Runtime {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runtime
}
