// Package shim runs agents so that they outlive the daemon: each has a slot, a
// directory that a small process of its own (package server) holds as long as
// it lives. Runtime is the daemon's side. It starts shims, talks to them, and
// finds them again.
//
// What is believed about a slot rests on evidence, the strongest first:
//
//  1. An answer on the shim's socket.
//  2. The lock of the slot, which a shim holds from before its first
//     instruction to its end. Who gets it knows that no shim lives, and is the
//     only one to start another.
//  3. The identity of the shim in the state file, or in the lock file, where it
//     notes what it is about to start. It must have ended before the slot is
//     taken over.
//  4. The exit record. Without one, the last incarnation was lost: the shim
//     was killed. Its agent has died with it (PDEATHSIG); what that left behind
//     is in the control group of the slot, where there are any, or carries the
//     marker of the slot in its environment, and is killed before the loss is
//     told.
//
// What contradicts itself is unknown, and nothing is done about it but to try
// again.
package shim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options of a Runtime.
type Options struct {
	// Dir holds the slots. It is made if it is missing, and must belong to
	// this user alone.
	Dir string
	// Executable is called with "shim" as its first argument and must run
	// server.Main then; this program if empty.
	Executable string
	// WithoutGroups: agents are not put into control groups, although that is possible.
	WithoutGroups bool
	// Output is given each line of each agent, those of one agent one at a
	// time and in order, and before the change of state that followed it
	// unless it is slow; the agent waits for it when it writes more. Lines
	// that were written without a listener are in the log only. Nil: all are.
	Output func(path string, incarnation uint64, line proc.Line)
	// Logger may be nil.
	Logger *slog.Logger
}

// Runtime implements runtime.Runtime with shims.
type Runtime struct {
	dir     string
	exe     string
	output  func(string, uint64, proc.Line)
	log     *slog.Logger
	sweeper proc.Sweeper
	groups  groups
	owners  owners

	ctx    context.Context // of everything that goes on in the background
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	slots map[string]*slot // by path
}

var _ runtime.Runtime = (*Runtime)(nil)

var errClosed = errors.New("runtime is closed")

// Open makes a Runtime.
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
	rouse(context.Background(), dir)
	r := &Runtime{dir: dir, exe: o.Executable, output: o.Output, log: o.Logger, slots: make(map[string]*slot)}
	if r.exe == "" {
		r.exe = "/proc/self/exe" // also when the file has been replaced by a newer one
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.groups.find(r, o.WithoutGroups)
	return r, nil
}

// Kind is "proc".
func (r *Runtime) Kind() string { return "proc" }

// Close lets go of all shims; they and their agents go on.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.cancel(errClosed)
	for _, s := range r.slots {
		s.dropIdle()
	}
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// background runs f unless the runtime is closed.
func (r *Runtime) background(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.wg.Go(f)
	}
}

// read runs a link until it or the runtime is closed.
func (r *Runtime) read(l *link) {
	stop := context.AfterFunc(r.ctx, func() { l.close(errClosed) })
	r.background(func() {
		defer stop()
		l.run()
	})
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
		s = &slot{r: r, path: path, dir: filepath.Join(r.dir, name), turn: make(chan struct{}, 1)}
		s.group = r.groups.of(s.dir)
		r.slots[path] = s
		r.owners.add(s, proc.Identity{}, proc.Identity{})
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
		r.owners.remove(s, s.known())
	}
	return nil
}

// Ready tells a shim that its agent says that it is ready: see runtime.Runtime.
func (r *Runtime) Ready(ctx context.Context, path string, incarnation uint64) error {
	s, err := r.slot(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	l, _, err := dial(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	}
	r.read(l)
	defer l.close(errClosed)
	_, err = l.call(ctx, wire.Message{Type: wire.Ready, Incarnation: incarnation})
	return err
}

const (
	listTime  = 2 * time.Second // for one slot
	listAhead = 16              // slots that are looked at at a time
)

// List looks at all slots: see runtime.Runtime.
func (r *Runtime) List(ctx context.Context) ([]runtime.Observation, error) { return r.Among(ctx, nil) }

// Among is List of the slots whose directory has a name that is to be looked at;
// nil: of all.
func (r *Runtime) Among(ctx context.Context, which func(name string) bool) ([]runtime.Observation, error) {
	var mu sync.Mutex
	var found []*runtime.Observation
	if err := r.each(which, func(dir string) {
		o := look(ctx, dir)
		mu.Lock()
		defer mu.Unlock()
		found = append(found, o)
	}); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("list the slots: %w", context.Cause(ctx))
	}
	var all []runtime.Observation
	for _, o := range found {
		if o != nil {
			all = append(all, *o)
		}
	}
	return all, nil
}

// Quit ends the shims in which no agent lives, which would otherwise wait for
// another start for a while, and waits for the last lines that Options.Output
// is given.
func (r *Runtime) Quit(ctx context.Context) error {
	return r.each(nil, func(dir string) {
		l, _, err := dial(ctx, dir)
		if err != nil {
			r.finish(dir) // it has ended, or will by itself
			return
		}
		r.read(l)
		_, err = l.call(ctx, wire.Message{Type: wire.Quit})
		l.close(errClosed)
		if err == nil || errors.Is(err, errLinkLost) {
			r.finish(dir)
		}
	})
}

// each calls f for the directory of each slot, or of those that are wanted by
// name, for some at the same time.
func (r *Runtime) each(which func(name string) bool, f func(dir string)) error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("list the slots: %w", err)
	}
	ahead := make(chan struct{}, listAhead)
	var wg sync.WaitGroup
	for _, e := range entries {
		if !e.IsDir() || which != nil && !which(e.Name()) {
			continue
		}
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			f(filepath.Join(r.dir, e.Name()))
		})
	}
	wg.Wait()
	return nil
}

// look observes a slot without touching it; nil if there is nothing in it.
func look(ctx context.Context, dir string) *runtime.Observation {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	link, st, dialErr := dial(ctx, dir)
	if dialErr == nil {
		link.close(errClosed)
		if st.Incarnation == 0 {
			return nil
		}
		return withBefore(dir, observation(st))
	}
	locked, err := wire.Locked(dir)
	unknown := func(st *wire.State, why error) *runtime.Observation {
		o := &runtime.Observation{Path: st.Path, Incarnation: st.Incarnation, SpecHash: st.SpecHash, Token: st.Token,
			Detail: why.Error()}
		if o.Path == "" {
			o.Path = filepath.Base(dir)
		}
		return o
	}
	st, serr := wire.ReadState(dir)
	switch {
	case err != nil:
		return unknown(st, err)
	case locked:
		return unknown(st, fmt.Errorf("a shim lives, but: %w", dialErr))
	case errors.Is(serr, fs.ErrNotExist):
		return nil
	case serr != nil:
		return unknown(new(wire.State), serr)
	case proc.Observe(st.Shim) != proc.Dead:
		return unknown(st, fmt.Errorf("shim %d lives, but does not hold the lock of the slot", st.Shim.PID))
	}
	withRecord(dir, st)
	return withBefore(dir, observation(st))
}

// Remembers is how many ends before that of its last incarnation a slot knows.
func (r *Runtime) Remembers(string) int { return wire.Remembered }

// withBefore adds the ends of the incarnations before the observed one. The
// exit record is replaced when the next incarnation ends, not when it starts,
// and keeps the ends before it.
func withBefore(dir string, o *runtime.Observation) *runtime.Observation {
	r, err := wire.ReadRecord(dir)
	if err != nil {
		return o
	}
	for _, p := range append(r.Before, wire.Past{Incarnation: r.Incarnation, End: r.End}) {
		if p.Incarnation < o.Incarnation {
			o.Before = append(o.Before, runtime.Ended{Incarnation: p.Incarnation, ExitedAt: p.End.At,
				Exit: p.End.Exit()})
		}
	}
	return o
}

// observation is the part of a state that everybody may know.
func observation(st *wire.State) *runtime.Observation {
	o := &runtime.Observation{
		Path: st.Path, Incarnation: st.Incarnation, SpecHash: st.SpecHash, Token: st.Token,
		Life: runtime.Alive, StartedAt: st.StartedAt, Detail: st.Detail,
		Said: st.Said.Notice(time.Now()),
	}
	if st.End != nil {
		o.Life, o.Exit, o.ExitedAt = runtime.Dead, st.End.Exit(), st.End.At
		return o
	}
	o.Ready, o.PID = st.Ready, st.Agent.PID
	return o
}

// withRecord adds the end of an incarnation whose shim is gone: the exit
// record or, where that is missing or damaged, that it was lost.
func withRecord(dir string, st *wire.State) (recorded bool) {
	record, err := wire.ReadRecord(dir)
	switch {
	case err == nil && record.Incarnation == st.Incarnation:
		st.End = &record.End
		return true
	case err == nil || wire.IsMissing(err):
		err = errors.New("its shim has ended before it")
	}
	st.End = wire.NewEnd(supervisor.Exit{Kind: supervisor.Lost, Err: err}, time.Now())
	return false
}
