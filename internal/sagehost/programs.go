package sagehost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/sagehost/guest"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/run"
	"github.com/coppice-dev/coppice/supervisor"
)

// Programs holds the programs of a daemon. Their supervisors and agents are nodes of the daemon's
// tree. The agents run in a process of the program: see package guest.
type Programs struct {
	// Prepare changes a program before it is opened; it may be nil.
	Prepare func(*load.Program) error
	// Fresh distinguishes the processes of these programs from those of other daemons, which they
	// would take over if it were empty.
	Fresh string

	log   *slog.Logger
	trace *os.File // see run.Options; may be nil

	mu      sync.Mutex
	running map[string]*run.Program // the last one that was read, by the path of its topmost node
}

// NewPrograms returns an empty set of programs. trace may be nil.
func NewPrograms(l *slog.Logger, trace *os.File) *Programs {
	return &Programs{log: l, trace: trace, running: map[string]*run.Program{}}
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
	if err = checkNames(tree); err == nil {
		err = p.put(part.node.Name, part, tree.Patrol.ProgramMemory)
	}
	if err != nil {
		return nil, notices, sources, errors.Join(err, part.program.Close())
	}
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
	if err = merge(tree, part.node); err == nil {
		err = p.put(root.Name+"/"+part.node.Name, part, tree.Patrol.ProgramMemory)
	}
	if err != nil {
		err = errors.Join(err, part.program.Close())
	}
	return sources, err
}

// open makes a program a part of a tree.
func (p *Programs) open(program *load.Program, agents map[string]*spec.Agent) (*part, error) {
	if p.Prepare != nil {
		if err := p.Prepare(program); err != nil {
			return new(part), err
		}
	}
	o := run.Options{Logger: p.log}
	if p.trace != nil {
		o.Trace = p.trace
	}
	part, err := build(program, agents, o)
	if err != nil {
		return part, err
	}
	for _, w := range part.warnings {
		p.log.Warn(fmt.Sprintf("%v: %s", w.Span.Position(), w.Message), "code", w.Code)
	}
	return part, nil
}

// put gives the agents of a program their process, and replaces the program with the same topmost
// node.
func (p *Programs) put(top string, part *part, memory int64) error {
	bundle, err := guest.NewBundle(top, part.loaded, part.info, memory).Encode()
	if err != nil {
		return fmt.Errorf("the program of the project: %w", err)
	}
	*part.process = spec.Program{Key: p.keyOf(top, part.sources.Revisions[0]), Bundle: bundle, Trace: p.trace}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.running[top]
	p.running[top] = part.program
	if before != nil {
		if err := before.Close(); err != nil {
			p.log.Warn("closing the last version of a program", "path", top, "error", err)
		}
	}
	return nil
}

// keyOf returns the key of a version of a program.
func (p *Programs) keyOf(top, revision string) string {
	sum := sha256.Sum256([]byte(top + "\n" + revision + p.Fresh))
	return fmt.Sprintf("program %x %.100s", sum[:8], plaintext.Line(top))
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

// Close closes all programs. Their agents continue to run.
func (p *Programs) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, program := range p.running {
		errs = append(errs, program.Close())
	}
	clear(p.running)
	return errors.Join(errs...)
}
