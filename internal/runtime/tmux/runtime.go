// Package tmux runs agents in a tmux server of the project's own, for people
// who want to sit in the session: each slot is a session with one window and
// one pane, in which one incarnation after the other runs.
//
// tmux is trusted with the terminal and with the exit status, and with nothing
// else. What is believed about a slot rests on evidence (see judge): the exit
// record, the identity of the agent's process, what the server answers, and the
// identity of the server. A server that does not answer is unknown, whatever
// it says to others; one that has ended has taken its agents with it.
//
// The programs of package pane do the rest: a launcher in the pane turns into
// the agent on a word of the daemon's, and a keeper writes the output log.
package tmux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Options of a Runtime.
type Options struct {
	// Dir holds the slots and the socket of the server. It is made if it is
	// missing, and must belong to this user alone.
	Dir string
	// Output is given each line of each agent, those of one agent one at a
	// time and in order. It is read from the log: a slow reader delays nothing,
	// and what was rotated away meanwhile is missing, which a line says. May be nil.
	Output func(path string, incarnation uint64, line proc.Line)
	// Logger may be nil.
	Logger *slog.Logger
}

// Runtime implements runtime.Runtime with tmux. The program that uses it must
// call pane.Main when its first argument is pane.Arg.
type Runtime struct {
	dir     string
	output  func(string, uint64, proc.Line)
	log     *slog.Logger
	sweeper proc.Sweeper
	poke    chan struct{} // asks watchServer for a look at once
	calls   chan struct{} // held by each call of tmux

	ctx    context.Context // of everything that goes on in the background
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	slots     map[string]*slot // by path
	sessions  map[*session]struct{}
	listening map[*session]chan struct{} // those that Options.Output is given the lines of, until the last one
	checked   bool                       // the version of tmux is one that will do
	silent    string                     // why the server is not known to work; empty if it is
	hangs     bool                       // it lives, but does not answer
	woken     time.Time
	watching  bool
}

var _ runtime.Runtime = (*Runtime)(nil)

var errClosed = errors.New("runtime is closed")

// Open makes a Runtime. It needs no tmux yet: see Version.
func Open(o Options) (*Runtime, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the slots: %w", err)
	}
	if err := private.Dir(dir); err != nil {
		return nil, fmt.Errorf("directory of the slots: %w", err)
	}
	// The directory has one name, whatever links lead to it.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("directory of the slots: %w", err)
	}
	r := &Runtime{
		dir: dir, output: o.Output, log: o.Logger, poke: make(chan struct{}, 1), calls: make(chan struct{}, maxCalls),
		slots: make(map[string]*slot), sessions: make(map[*session]struct{}),
		listening: make(map[*session]chan struct{}),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r, nil
}

// Kind is "tmux".
func (r *Runtime) Kind() string { return "tmux" }

// Close lets go of all sessions; they go on.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.cancel(errClosed)
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// background runs f, and reports that, unless the runtime is closed.
func (r *Runtime) background(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.wg.Go(f)
	return true
}

// both is a context that ends with ctx or with the runtime.
func (r *Runtime) both(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (r *Runtime) slot(path string) (*slot, error) {
	name, err := wire.DirName(path)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil, errClosed
	}
	s := r.slots[path]
	if s == nil {
		s = &slot{r: r, path: path, name: name, dir: filepath.Join(r.dir, name), turn: make(chan struct{}, 1),
			writer: make(chan struct{}, 1)}
		r.slots[path] = s
	}
	return s, nil
}

// Start begins an incarnation: see runtime.Runtime.
func (r *Runtime) Start(ctx context.Context, l runtime.Launch) (runtime.Session, error) {
	s, err := r.slot(l.Path)
	if err != nil {
		return nil, err
	}
	ses, err := s.start(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("start %s, incarnation %d: %w", l.Path, l.Incarnation, err)
	}
	if err := ses.startReady(ctx); err != nil {
		return nil, err // a reason, shown next to the agent's path
	}
	return ses, nil
}

// Adopt takes over what runs or has ended: see runtime.Runtime.
func (r *Runtime) Adopt(ctx context.Context, path string) (runtime.Session, error) {
	s, err := r.slot(path)
	if err != nil {
		return nil, err
	}
	ses, err := s.adopt(ctx)
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", path, err)
	}
	return ses, nil
}

// Log is the name of the log of a slot: see runtime.Runtime.
func (r *Runtime) Log(path string) (string, error) {
	name, err := wire.DirName(path)
	if err != nil {
		return "", err
	}
	return filepath.Join(r.dir, name, wire.LogFile), nil
}

// Remove forgets a slot: see runtime.Runtime. One that does not exist is forgotten already.
func (r *Runtime) Remove(ctx context.Context, path string) error {
	s, err := r.slot(path)
	if err != nil {
		return err
	}
	if err := s.remove(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots[path] == s {
		delete(r.slots, path)
	}
	return nil
}

// List looks at all slots: see runtime.Runtime. The server is asked once.
func (r *Runtime) List(ctx context.Context) ([]runtime.Observation, error) { return r.Among(ctx, nil) }

// Among is List of the slots whose directory has a name that is to be looked at;
// nil: of all.
func (r *Runtime) Among(ctx context.Context, which func(name string) bool) ([]runtime.Observation, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("list the slots: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && (which == nil || which(e.Name())) {
			dirs = append(dirs, filepath.Join(r.dir, e.Name()))
		}
	}
	if len(dirs) == 0 {
		return nil, context.Cause(ctx)
	}
	answer := r.panes(ctx, "")
	if ctx.Err() != nil {
		return nil, fmt.Errorf("list the slots: %w", context.Cause(ctx))
	}
	var all []runtime.Observation
	for _, dir := range dirs {
		if o := look(dir, answer); o != nil {
			all = append(all, *o)
		}
	}
	return all, nil
}

// look observes a slot without touching it; nil if there is nothing in it.
func look(dir string, answer answer) *runtime.Observation {
	rec, err := readRecord(dir)
	if wire.IsMissing(err) {
		return nil
	}
	if err != nil {
		return &runtime.Observation{Path: filepath.Base(dir), Detail: err.Error()}
	}
	v := judge(gather(dir, rec, answer))
	o := rec.observation()
	o.Life = v.life
	switch v.life {
	case runtime.Unknown:
		o.Detail = v.why.Error()
	case runtime.Alive:
		o.Ready, o.PID = rec.Ready, rec.Agent.PID
	case runtime.Dead:
		end := v.end
		if end == nil {
			end = wire.NewEnd(v.exit(rec.Asked, nil), v.at(rec, time.Now()))
		}
		o.Exit, o.ExitedAt = end.Exit(), end.At
	}
	return o
}
