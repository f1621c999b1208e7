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

// Programs are the programs of a controller. Their agents are functions of this
// process and leaves of the controller's tree; their output goes to the slots of
// a runtime, and their beliefs into the store of those of all agents.
type Programs struct {
	log   *slog.Logger
	trace io.Writer // see run.Options

	mu      sync.Mutex
	runtime *inproc.Runtime         // nil until SetRuntime
	store   *belief.Store           // nil until SetBeliefs
	agents  map[string]*spec.Agent  // of programs by path; the controller opens their beliefs
	running map[string]*run.Program // by the path of their topmost node
	opened  []*run.Program
}

// NewPrograms returns an empty set of programs.
func NewPrograms(l *slog.Logger, trace io.Writer) *Programs {
	return &Programs{
		log: l, trace: trace, agents: map[string]*spec.Agent{}, running: map[string]*run.Program{},
	}
}

// Sources are what a tree is made of: files, the directories in which a change
// may change it, and the revision of each part.
type Sources struct{ Files, Dirs, Revisions []string }

// With returns both.
func (s Sources) With(more Sources) Sources {
	return Sources{
		Files:     slices.Concat(s.Files, more.Files),
		Dirs:      slices.Concat(s.Dirs, more.Dirs),
		Revisions: slices.Concat(s.Revisions, more.Revisions),
	}
}

// Project returns the program of a project, named by its grove.toml, as a tree.
// Its records are stored where the project has its beliefs. The sources are
// valid also with an error, as far as they are known.
func (p *Programs) Project(file string) (*spec.Tree, []*config.Notice, Sources, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, nil, Sources{}, err
	}
	sources := Sources{[]string{absolute}, []string{filepath.Dir(absolute)}, []string{""}}
	if text, _, err := load.Read(absolute); err == nil { // a FIFO is an error
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
		program.Base = "" // diagnostics have the whole path, then
	}
	agents := map[string]*spec.Agent{}
	if program.Fleet.File != "" {
		all, err := config.LoadAll(program.Fleet.File)
		sources = sources.With(Sources{all.Sources, all.WatchDirs, []string{all.Revision}})
		if err != nil {
			return nil, notices, sources, err
		}
		agents = processes(all.Tree)
	}
	part, err := p.open(program, agents)
	sources = sources.With(part.sources)
	if err != nil {
		return nil, notices, sources, err
	}
	tree := &spec.Tree{
		Root: part.node, Persistence: spec.Persistence{Backend: files.grove.Persistence.Backend},
		Patrol: spec.DefaultPatrol(),
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

// Merge adds the program that a tree names to it. Agents of the tree that are
// children of the program move there. The sources are those of the program, valid
// also with an error.
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

// put records where in a tree a program is, and its agents. An agent that has
// not changed keeps its identity: what runs goes on with what it has, such as
// its mailbox.
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

// SetRuntime takes the runtime whose slots the agents are in from those of the
// controller.
func (p *Programs) SetRuntime(all []runtime.Runtime) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		if r, is := r.(*inproc.Runtime); is {
			p.runtime = r
		}
	}
}

// SetBeliefs sets where beliefs are stored. A nil p has no programs.
func (p *Programs) SetBeliefs(b *belief.Store) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store = b
}

// Traced returns an event handler that adds events of supervisors of programs to
// their traces and calls next, which may be nil.
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

// Close releases all programs. None of their agents may still run.
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

// daemonHost implements host.Host for the programs of a controller.
type daemonHost struct {
	*Programs
	command.Runner
}

var errNoBeliefs = errors.New("no beliefs are stored here")

// beliefs returns the store of beliefs. The controller opens the beliefs of agents in its
// tree before they start.
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

// Started reports a start to the runtime, which ignores an agent that has been
// stopped meanwhile.
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
