package controller

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// stage is a runtime whose agents are played: they do what their part says, in
// the time of the test. It refuses what a real one refuses.
type stage struct {
	mu    sync.Mutex
	slots map[string]*actor
	parts map[string]part
	begun []string // every start that was asked for: path and number
	quiet bool     // begun is only counted
	count map[string]int
	when  map[string][]launched // the starts
	blind error                 // of List
	logs  string                // a directory
}

// launched is a start: when, and of what.
type launched struct {
	at      time.Time
	command string
}

// part is how an agent behaves. The zero value runs until it is stopped.
type part struct {
	lives time.Duration // and fails then; 0: for ever
	exit  supervisor.Exit
	start error         // of every start
	takes time.Duration // until it is ready
	stops time.Duration // between being asked and the end
}

func newStage() *stage {
	return &stage{slots: map[string]*actor{}, parts: map[string]part{}, count: map[string]int{}, when: map[string][]launched{}}
}

// actor is an incarnation.
type actor struct {
	seen    atomic.Pointer[actor] // shown in its place to all that ask from now on
	launch  runtime.Launch
	part    part
	started time.Time
	done    chan struct{}
	mute    atomic.Bool // it does not get ready
	begun   string      // to write a line
	active  time.Time   // zero: at the start
	once    sync.Once
	exit    supervisor.Exit
	ended   time.Time
}

func (s *stage) Kind() string { return "proc" }

func (s *stage) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	s.mu.Lock()
	s.count[l.Path]++
	if !s.quiet {
		s.when[l.Path] = append(s.when[l.Path], launched{time.Now(), l.Argv[0]})
		s.begun = append(s.begun, fmt.Sprint(l.Path, " ", l.Incarnation))
	}
	last, p := s.slots[l.Path], s.parts[l.Path]
	s.mu.Unlock()
	switch {
	case last != nil && !last.over():
		return nil, runtime.ErrBusy
	case last != nil && l.Incarnation <= last.launch.Incarnation && !l.ResetNumbering:
		return nil, fmt.Errorf("%w: the last one was %d", runtime.ErrStale, last.launch.Incarnation)
	case p.start != nil:
		return nil, p.start
	}
	a := &actor{launch: l, part: p, started: time.Now(), done: make(chan struct{})}
	s.mu.Lock()
	s.slots[l.Path] = a
	s.mu.Unlock()
	if p.takes > 0 {
		select {
		case <-time.After(p.takes):
		case <-ctx.Done():
			a.end(supervisor.Exit{Kind: supervisor.ShutDown})
			return nil, ctx.Err()
		}
	}
	if p.lives > 0 {
		time.AfterFunc(p.lives, func() { a.end(p.ending()) })
	}
	return a, nil
}

func (p part) ending() supervisor.Exit {
	if p.exit.Kind != supervisor.NoExit {
		return p.exit
	}
	return supervisor.Exit{Kind: supervisor.Failure, Err: fmt.Errorf("exit code 1")}
}

func (s *stage) Adopt(_ context.Context, path string) (runtime.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.slots[path]; a != nil {
		return a, nil
	}
	return nil, fs.ErrNotExist
}

func (s *stage) Ready(context.Context, string, uint64) error { return nil }

func (s *stage) Log(path string) (string, error) { return cmp.Or(s.logs, "/nowhere") + "/" + path, nil }

func (s *stage) List(context.Context) (all []runtime.Observation, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(s.slots)) {
		all = append(all, s.slots[path].Observe())
	}
	return all, s.blind
}

func (s *stage) ListSome(ctx context.Context, which func(string) bool) (some []runtime.Observation, err error) {
	all, err := s.List(ctx)
	for _, o := range all {
		if slot, _ := wire.DirName(o.Path); which(slot) {
			some = append(some, o)
		}
	}
	return some, err
}

func (s *stage) Remove(_ context.Context, path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.slots[path]; a != nil && !a.over() {
		return runtime.ErrBusy
	}
	delete(s.slots, path)
	return nil
}

func (s *stage) Removed() ([]string, error) { return nil, nil }

func (s *stage) Close() error { return nil }

// starts is how often an agent was started.
func (s *stage) starts(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[path]
}

// startsSince is how often an agent was started after a time.
func (s *stage) startsSince(path string, at time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.when[path] {
		if l.at.After(at) {
			n++
		}
	}
	return n
}

// changedBy reports whether the first start at or after a time was of another
// command than the one before.
func (s *stage) changedBy(path string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.when[path] {
		if !l.at.Before(at) {
			return i > 0 && l.command != s.when[path][i-1].command
		}
	}
	return true // it has not come to a start
}

// plays gives an agent another part, from its next start on.
func (s *stage) plays(path string, p part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[path] = p
}

// on returns the living incarnation of an agent; nil if there is none.
func (s *stage) on(path string) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.slots[path]; a != nil && !a.over() {
		return a
	}
	return nil
}

// cast are the paths and numbers of all that live.
func (s *stage) cast() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, path := range slices.Sorted(maps.Keys(s.slots)) {
		if a := s.slots[path]; !a.over() {
			all = append(all, fmt.Sprint(path, " ", a.launch.Incarnation))
		}
	}
	return strings.Join(all, ", ")
}

func (a *actor) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *actor) end(e supervisor.Exit) {
	a.once.Do(func() { a.exit, a.ended = e, time.Now(); close(a.done) })
}

func (a *actor) Done() <-chan struct{} {
	if seen := a.seen.Load(); seen != nil {
		return seen.done
	}
	return a.done
}
func (a *actor) Exit() supervisor.Exit { return a.exit }
func (a *actor) Stop() {
	end := func() { a.end(supervisor.Exit{Kind: supervisor.ShutDown}) }
	if a.part.stops == 0 {
		go end() // a timer that is due when it is made can crash Go 1.26.8 within synctest, with -race
		return
	}
	time.AfterFunc(a.part.stops, end)
}
func (a *actor) Kill() { a.end(supervisor.Exit{Kind: supervisor.Killed, Err: supervisor.ErrKilled}) }
func (a *actor) Observe() runtime.Observation {
	if seen := a.seen.Load(); seen != nil {
		return seen.Observe()
	}
	o := runtime.Observation{
		Path: a.launch.Path, Incarnation: a.launch.Incarnation, SpecHash: a.launch.SpecHash, Token: a.launch.Token,
		Life: runtime.Alive, Ready: true, PID: 1, StartedAt: a.started,
	}
	if a.over() {
		o.Life, o.Exit, o.ExitedAt = runtime.Dead, a.exit, a.ended
	}
	return o
}
func (a *actor) AwaitReady(ctx context.Context) error {
	if a.mute.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}
func (a *actor) Signal(context.Context, syscall.Signal) error { return nil }
func (a *actor) Write(context.Context, []byte) error          { return nil }
func (a *actor) Resize(context.Context, uint16, uint16) error { return nil }
func (a *actor) Peek(context.Context, int) ([]string, error)  { return nil, nil }
func (a *actor) LastActivity(context.Context) (time.Time, error) {
	return cmp.Or(a.active, a.started), nil
}
func (a *actor) Attach(context.Context, runtime.Attachment) error { return nil }
func (a *actor) Follow(context.Context, func()) error             { return nil }
func (a *actor) Unfinished(ctx context.Context, f func(string)) error {
	f(a.begun)
	<-ctx.Done()
	return nil
}

// treeOf makes a tree of words: "a" is an agent, "a=x" one that runs x,
// "s(a b)" a supervisor, "s:rest_for_one(a b)" one with that strategy.
func treeOf(t testing.TB, words ...string) *spec.Tree {
	t.Helper()
	var decls []spec.Decl
	agent := func(word string) string {
		name, command, _ := strings.Cut(word, "=")
		decls = append(decls, spec.Decl{Agent: &spec.Agent{
			Name: name, Dir: "/", Command: []string{cmp.Or(command, name)},
			Limit: supervisor.Limit{Max: supervisor.Unlimited},
		}})
		return name
	}
	for _, word := range words {
		head, below, nested := strings.Cut(strings.TrimSuffix(word, ")"), "(")
		if !nested {
			agent(word)
			continue
		}
		name, strategy, _ := strings.Cut(head, ":")
		n := &spec.Node{Name: name}
		if strategy != "" {
			var err error
			if n.Strategy, err = supervisor.ParseStrategy(strategy); err != nil {
				t.Fatal(err)
			}
		}
		d := spec.Decl{Node: n}
		for _, w := range strings.Fields(below) {
			d.Children = append(d.Children, agent(w))
		}
		decls = append(decls, d)
	}
	tree, problems := spec.Assemble(spec.Node{Name: "t"}, decls)
	if problems != nil {
		t.Fatal(problems)
	}
	return tree
}

// edited changes an agent of a tree, by name.
func edited(t testing.TB, tree *spec.Tree, name string, change func(*spec.Agent)) *spec.Tree {
	t.Helper()
	for _, child := range tree.All() {
		if child.Agent != nil && child.Agent.Name == name {
			change(child.Agent)
			return tree
		}
	}
	t.Fatalf("no agent %s", name)
	return nil
}

// play is a controller on a stage, in a bubble of its own.
type play struct {
	*Controller
	t     failer
	stage *stage
	store store.Store
}

// failer is a test of whatever kind.
type failer interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
}

// raise opens a controller on a stage and waits until nothing moves.
func raise(t testing.TB, s *stage, db store.Store, tree *spec.Tree) *play {
	t.Helper()
	c := mustOpen(t, s, db, tree)
	synctest.Wait()
	time.Sleep(10 * time.Millisecond) // the breath of the log
	return &play{c, t, s, db}
}

func mustOpen(t testing.TB, s *stage, db store.Store, tree *spec.Tree) *Controller {
	t.Helper()
	c, err := Open(context.Background(), Options{
		Tree: tree, Store: db, Runtimes: []runtime.Runtime{s}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newPlay(t testing.TB, tree *spec.Tree) *play { return raise(t, newStage(), memory.New(), tree) }

func (p *play) close() {
	p.Stop(false)
	<-p.Ended()
}

// state is the state of a node, by its path.
func (p *play) state(path string) supervisor.State {
	p.t.Helper()
	sup, id, err := p.tree.Locate(path)
	if err != nil {
		p.t.Fatal(err)
	}
	info, err := p.tree.Child(sup, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return info.State
}

// happened are the events of some types, in short.
func (p *play) happened(types ...event.Type) (all []string) {
	p.t.Helper()
	var f event.Filter
	for _, k := range types {
		f.Types = append(f.Types, string(k))
	}
	if err := p.log.Sync(context.Background()); err != nil {
		p.t.Fatal(err)
	}
	events, _, err := p.log.Read(context.Background(), 0, f, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range events {
		all = append(all, e.Message)
	}
	return all
}

// renamed is a tree of words in a project of another name.
func renamed(t testing.TB, name string, words ...string) *spec.Tree {
	t.Helper()
	tree := treeOf(t, words...)
	tree.Root.Name = name
	return tree
}

// quietly is a log without a reader.
var quietly = slog.New(slog.DiscardHandler)

func stages(s *stage) []runtime.Runtime { return []runtime.Runtime{s} }

// planBlind is a plan made of nothing that could be seen.
func planBlind(desired []reconcile.Desired) reconcile.Result {
	unknown := make(map[string]*reconcile.Observed)
	for _, d := range desired {
		unknown[d.Path] = &reconcile.Observed{Path: d.Path}
	}
	unknown["t/unknown"] = &reconcile.Observed{Path: "t/unknown"}
	return reconcile.Plan(desired, unknown, reconcile.InFlight{}, time.Now())
}
