package daemon

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
	"time"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/inproc"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/sage/eval"
	sage "github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/supervisor"
)

// LoadTree reads the desired tree of a project from its file: a coppice.toml,
// with the Sage program that it names as a part of the tree, or a grove.toml,
// whose program is the whole tree. Notices are what the file says in vain. The
// error is config.Errors, or about the program.
func LoadTree(file string) (tree *spec.Tree, notices []*config.Notice, err error) {
	p := newPrograms(nil, nil)
	l := reading{Loaded: Loaded{Config: ConfigInfo{Path: file}}}
	p.read(file, &l)
	return l.Tree, l.notices, errors.Join(l.Err, p.close())
}

// reading is a Loaded in the making.
type reading struct {
	Loaded
	notices  []*config.Notice
	revision []string // of what it is made of
}

// of takes note of files that it is made of, and of their revision.
func (l *reading) of(files, dirs []string, revision string) {
	l.Watch.Files = append(l.Watch.Files, files...)
	l.Watch.Dirs = append(l.Watch.Dirs, dirs...)
	l.revision = append(l.revision, revision)
}

// programs is how Sage programs live in a controller: their agents are functions
// of this process, what these say goes into slots of a runtime, and what they
// must not forget into the book of all agents.
type programs struct {
	log   *slog.Logger
	trace io.Writer // see eval.Options

	mu    sync.Mutex
	told  string          // the revision whose notices the log has been given
	place *inproc.Runtime // nil as long as nothing can run
	book  *belief.Book
	own   map[string]*spec.Agent // agents in the tree by path, whose beliefs the controller opens
	grown map[string]*sage.Grown
	ends  []func() error
}

func newPrograms(l *slog.Logger, trace io.Writer) *programs {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &programs{log: l, trace: trace, own: map[string]*spec.Agent{}, grown: map[string]*sage.Grown{}}
}

// load is LoadTree for a controller that runs what it returns. It may be called
// again, for the tree that is desired from then on.
func (p *programs) load(file string) Loaded {
	l := reading{Loaded: Loaded{Config: ConfigInfo{Path: file, LoadedAt: time.Now()}}}
	p.read(file, &l)
	for _, set := range []*[]string{&l.Watch.Files, &l.Watch.Dirs} {
		slices.Sort(*set)
		*set = slices.Compact(*set)
	}
	if len(l.revision) == 1 {
		l.Config.Revision = l.revision[0]
	} else {
		sum := sha256.Sum256([]byte(strings.Join(l.revision, "\n")))
		l.Config.Revision = hex.EncodeToString(sum[:])
	}
	p.mu.Lock()
	news := l.Config.Revision != p.told
	p.told = l.Config.Revision
	p.mu.Unlock()
	for _, n := range l.notices {
		if news { // the file is read again and again
			p.log.Warn(n.String())
		}
	}
	return l.Loaded
}

func (p *programs) read(file string, l *reading) {
	if config.IsGrove(file) {
		l.Tree, l.Err = p.grove(file, l)
	} else {
		var all *config.Loaded
		all, l.Err = config.LoadAll(file)
		l.of(all.Sources, all.WatchDirs, all.Revision)
		l.Tree, l.notices = all.Tree, all.Notices
		if l.Err == nil && l.Tree.Root.Program != "" {
			l.Err = p.graft(l)
		}
	}
	if l.Err != nil {
		l.Tree = nil
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(l.Tree.Root, l.Tree.Root.Name)
}

// settle takes note of the agents of programs. One that is what it was before
// stays the same: what lives goes on with what it has, such as its mailbox. It
// needs mu.
func (p *programs) settle(n *spec.Node, path string) {
	for i, c := range n.Children {
		at := path + "/" + c.Name()
		switch {
		case c.Node != nil:
			p.settle(c.Node, at)
		case c.Agent.Runtime == spec.InProcess:
			if was := p.own[at]; was != nil && was.Revision == c.Agent.Revision && was.Restart == c.Agent.Restart {
				n.Children[i].Agent = was
			}
			p.own[at] = n.Children[i].Agent
		}
	}
}

// grove is the program of a project as a tree. Its beliefs are where the
// project wants them, with all else that is to be kept.
func (p *programs) grove(file string, l *reading) (*spec.Tree, error) {
	dir := filepath.Dir(file)
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	l.of([]string{absolute}, []string{filepath.Dir(absolute)}, "")
	if text, _, err := load.Read(absolute); err == nil { // a FIFO is an error
		sum := sha256.Sum256([]byte(text))
		l.revision[0] = hex.EncodeToString(sum[:])
	}
	program, err := load.Project(dir)
	if err != nil {
		return nil, err
	}
	if program.Base, err = os.Getwd(); err != nil {
		program.Base = "" // diagnostics have the whole path, then
	}
	l.notices = program.Grove.Notices
	agents := map[string]*spec.Agent{}
	if program.Fleet != "" {
		all, err := config.LoadAll(program.Fleet)
		l.of(all.Sources, all.WatchDirs, all.Revision)
		if err != nil {
			return nil, err
		}
		agents = sage.Processes(all.Tree)
	}
	g, err := p.grow(program, agents, l)
	if err != nil {
		return nil, err
	}
	p.note(g.Node.Name, g)
	tree := &spec.Tree{Root: g.Node, Persistence: spec.Persistence{Backend: program.Grove.Persistence.Backend},
		Patrol: spec.DefaultPatrol()}
	if tree.Persistence.Backend == spec.SQLite {
		tree.Persistence.Path = program.Grove.Persistence.Path.Value
	}
	return tree, checkNames(tree)
}

// graft adds the program that a tree names to it, and moves the agents that are
// children of the program there.
func (p *programs) graft(l *reading) error {
	tree, root := l.Tree, l.Tree.Root
	program, err := load.Find(root.Program)
	if err != nil {
		return fmt.Errorf("the program of the project: %w", err)
	}
	agents := sage.Processes(tree)
	program.Processes = slices.Sorted(maps.Keys(agents))
	if program.Grove != nil {
		file := program.Grove.Entry.File // which has all settings of the program
		l.of([]string{file}, []string{filepath.Dir(file)}, fmt.Sprint(program.Grove.Limit))
	}
	g, err := p.grow(program, agents, l)
	if err != nil {
		return err
	}
	taken, own := map[string]bool{}, map[string]bool{g.Node.Name: true}
	for _, c := range (&spec.Tree{Root: g.Node}).All() {
		if c.Agent != nil && c.Agent.Runtime != spec.InProcess {
			taken[c.Name()] = true
		} else {
			own[c.Name()] = true
		}
	}
	for _, c := range tree.All() {
		if own[c.Name()] { // what depends on it could mean both
			return fmt.Errorf("%s is both in the file and in the program, expected another name for one of the two",
				spec.Quote(c.Name()))
		}
		if c.Node == nil {
			continue
		}
		for _, below := range c.Node.Children {
			if taken[below.Name()] {
				return fmt.Errorf("the agent %s is a child of the supervisor %s and of the program, expected one "+
					"place for each; remove one of the two",
					spec.Quote(below.Name()), spec.Quote(c.Node.Name))
			}
		}
	}
	root.Children = slices.DeleteFunc(root.Children, func(c spec.Child) bool { return taken[c.Name()] })
	// A program that has come to its end has not failed, and one that has failed
	// is a matter of the root.
	g.Node.Restart = supervisor.Transient
	root.Children = append(root.Children, spec.Child{Node: g.Node})
	p.note(root.Name+"/"+g.Node.Name, g)
	return checkNames(tree)
}

func (p *programs) grow(program *load.Program, agents map[string]*spec.Agent, l *reading) (*sage.Grown, error) {
	g, err := sage.Grow(program, sage.GrowOptions{
		Beliefs: kept{p}, Ready: p.ready, Say: p.say, Trace: p.trace, Logger: p.log, Agents: agents,
	})
	dirs := make([]string, len(g.Files))
	for i, file := range g.Files {
		dirs[i] = filepath.Dir(file)
	}
	l.of(g.Files, dirs, g.Revision)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.ends = append(p.ends, g.Close)
	p.mu.Unlock()
	for _, w := range g.Warnings {
		at := w.Span.Position()
		p.log.Warn(fmt.Sprintf("%v: %s", at, w.Message), "code", w.Code)
	}
	return g, nil
}

// note remembers where a program is in the tree.
func (p *programs) note(path string, g *sage.Grown) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grown[path] = g
}

// checkNames refuses what no path can hold, and trees that are too deep.
func checkNames(tree *spec.Tree) error {
	var check func(n *spec.Node, level int) error
	check = func(n *spec.Node, level int) error {
		if level > supervisor.MaxDepth {
			return fmt.Errorf("the supervisor %s is on level %d, counted from the root, expected at most %d", n.Name,
				level, supervisor.MaxDepth)
		}
		for _, c := range n.Children {
			if wrong := spec.CheckName(c.Name()); wrong != "" {
				return errors.New(wrong)
			}
			if c.Node != nil {
				if err := check(c.Node, level+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return check(tree.Root, 1)
}

// settleIn says in which runtime the agents are, of those that there are.
func (p *programs) settleIn(all []runtime.Runtime) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		if r, is := r.(*inproc.Runtime); is {
			p.place = r
		}
	}
}

// remember says where beliefs are kept. Without programs there is nobody to be told.
func (p *programs) remember(b *belief.Book) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book = b
}

// ready tells the runtime that an agent has started. That it has been stopped
// meanwhile is known there already.
func (p *programs) ready(ctx context.Context, path string, incarnation uint64) {
	p.mu.Lock()
	place := p.place
	p.mu.Unlock()
	if place != nil {
		_ = place.Ready(ctx, path, incarnation)
	}
}

// say is a line that an agent prints.
func (p *programs) say(path string, toErr bool, line string) {
	p.mu.Lock()
	place := p.place
	p.mu.Unlock()
	if place == nil {
		return
	}
	stream := proc.Stdout
	if toErr {
		stream = proc.Stderr
	}
	place.Say(path, stream, line)
}

// tracing makes what supervisors of programs do a part of their trace, and tells
// next, which may be nil.
func (p *programs) tracing(next func(supervisor.Event)) func(supervisor.Event) {
	if p.trace == nil {
		return next
	}
	return func(e supervisor.Event) {
		p.traced(e)
		if next != nil {
			next(e)
		}
	}
}

func (p *programs) traced(e supervisor.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for path, g := range p.grown {
		at := e.Header().Path()
		if _, below := cutPath(at, path); below || at == path {
			g.Traced(e)
		}
	}
}

// close lets go of all programs. None of their agents may live any more.
func (p *programs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, end := range p.ends {
		errs = append(errs, end())
	}
	p.ends = nil
	return errors.Join(errs...)
}

// kept is the book of beliefs for programs.
type kept struct{ of *programs }

var errNoBook = errors.New("nothing is kept here")

// Begin is part of eval.Beliefs. The controller opens the beliefs of agents in
// the tree before they start; those that these summon are opened here.
func (k kept) Begin(ctx context.Context, path string, incarnation uint64, names []string) (eval.Kept, error) {
	k.of.mu.Lock()
	book, own := k.of.book, k.of.own[path] != nil
	k.of.mu.Unlock()
	switch {
	case book == nil:
		return nil, errNoBook
	case own:
		return eval.Begun(ctx, book, path, incarnation)
	}
	return eval.InBook(book).Begin(ctx, path, incarnation, names)
}
