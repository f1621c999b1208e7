// Package shim runs agents so that they outlive the daemon. Each agent has a slot, a directory
// that belongs to a process next to the daemon (package server) as long as that serves it. Several
// agents of a supervisor share such a shim. Runtime is the daemon's side: it starts shims, gives
// them slots, talks to them, and finds them again.
//
// The state of a slot is decided by evidence, the strongest first:
//
//  1. An answer on the shim's socket.
//  2. The lock of the slot, which a shim holds as long as it serves the slot: the process that
//     has given it the slot has passed on the lock. A process that gets the lock knows that no shim
//     serves the slot, and is the only one to give it to another.
//  3. The identity of the shim in the lock file, where it notes what it is about to start, and that
//     it has left. Without that, it must have ended before the slot is taken over.
//  4. The exit record. Without one the last incarnation was lost: its shim was killed, and the
//     agent died with it (PDEATHSIG). What that left behind is in the control group of the slot,
//     if there is one, or has the marker of the slot in its environment. It is killed before the
//     loss is reported.
//
// If the evidence is contradictory, the state is unknown, and all that happens is another try.
package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runfiles"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Options configure a Runtime.
type Options struct {
	// Dir holds the slots. It is created if necessary, and must belong to this user alone.
	Dir string
	// Executable is called with "shim" as its first argument and must run server.Main then.
	// Empty means this program.
	Executable string
	// PerShim is the largest number of agents of a supervisor that share a shim. 0 means
	// spec.DefaultPerShim.
	PerShim int
	// Deadline is a file of package deadline, which exists; empty if there is none. All shims end their agents at
	// that deadline, those of earlier runtimes, too.
	Deadline string
	// Files is a directory of package runfiles, which is created if necessary; if it is empty, launches have no files.
	Files string
	// WithoutGroups disables control groups.
	WithoutGroups bool
	// Output, if not nil, gets each line of each agent. The calls for an agent are sequential
	// and in order, and a line comes before the change of state that followed it, unless Output
	// is slow. The agent then waits when it writes more. Lines that were written while no daemon
	// listened are only in the log.
	Output func(path string, incarnation uint64, line proc.Line)
	// Logger may be nil.
	Logger *slog.Logger
}

// Runtime implements runtime.Runtime with shims.
type Runtime struct {
	*slots.Table[*slot]
	exe     string
	expiry  string // Options.Deadline
	files   runfiles.Dir
	output  func(string, uint64, proc.Line)
	log     *slog.Logger
	sweeper proc.Sweeper
	groups  groups
	owners  owners
	hosts   hosts
	perShim atomic.Int64
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Expirer = (*Runtime)(nil)
)

// Open returns a Runtime.
func Open(o Options) (*Runtime, error) {
	r, err := newRuntime(o)
	if err != nil {
		return nil, err
	}
	r.wakeShims(context.Background())
	if r.exe == "" {
		r.exe = "/proc/self/exe" // also if a newer file has replaced it
	}
	r.groups.find(r, o.WithoutGroups)
	return r, nil
}

// newRuntime returns a Runtime that is not connected to any shim yet, and knows no control groups.
func newRuntime(o Options) (*Runtime, error) {
	r := &Runtime{exe: o.Executable, expiry: o.Deadline, files: runfiles.Dir(o.Files), output: o.Output, log: o.Logger}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.expiry != "" {
		if err := deadline.CheckPath(r.expiry); err != nil {
			return nil, err
		}
	}
	r.hosts.byName, r.hosts.byKey = make(map[string]*host), make(map[string][]*host)
	r.SetPerShim(o.PerShim)
	var err error
	r.Table, err = slots.Open(o.Dir, r.newSlot)
	return r, err
}

// SetPerShim replaces Options.PerShim for slots that are given to shims from now on.
func (r *Runtime) SetPerShim(n int) { r.perShim.Store(int64(cmp.Or(max(0, n), spec.DefaultPerShim))) }

// Kind returns "proc".
func (r *Runtime) Kind() string { return "proc" }

func (r *Runtime) newSlot(path, dir string) *slot {
	s := &slot{r: r, path: path, dir: dir, turn: make(chan struct{}, 1), group: r.groups.of(dir)}
	r.owners.add(s)
	return s
}

// Ready is part of runtime.Runtime.
func (r *Runtime) Ready(ctx context.Context, path string, incarnation uint64) error {
	s, err := r.Get(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	l, err := r.link(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	}
	defer l.close(slots.ErrClosed)
	l.listen(nil)
	_, err = l.call(ctx, wire.Message{Type: wire.Ready, Incarnation: incarnation})
	if errors.Is(err, wire.ErrNotServed) {
		return fmt.Errorf("%w: %w", runtime.ErrUnknown, err)
	}
	return err
}

const (
	listTimeout = 2 * time.Second // for one slot
	maxParallel = 16              // slots that are examined in parallel
)

// List is part of runtime.Runtime. It keeps the connections to what runs, for Adopt.
func (r *Runtime) List(ctx context.Context) ([]runtime.Observation, error) {
	return r.list(ctx, nil, r.keep)
}

// ListSome lists the slots whose directory names are selected.
func (r *Runtime) ListSome(ctx context.Context, which func(name string) bool) ([]runtime.Observation, error) {
	return r.list(ctx, which, func(_ string, l *link, _ *wire.State) { l.close(slots.ErrClosed) })
}

// list calls answered with the link of each shim that answers, and its state.
func (r *Runtime) list(
	ctx context.Context, which func(name string) bool, answered func(dir string, l *link, st *wire.State),
) ([]runtime.Observation, error) {
	var mu sync.Mutex
	var all []runtime.Observation
	if err := r.each(which, func(dir string) {
		if o := r.look(ctx, dir, answered); o != nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, *o)
		}
	}); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("listing the slots: %w", context.Cause(ctx))
	}
	return all, nil
}

// keep keeps the link of an incarnation that runs and has no session yet: the next call for its slot
// is to adopt it.
func (r *Runtime) keep(dir string, l *link, st *wire.State) {
	if st.Incarnation > 0 && st.End == nil {
		if s, err := r.Get(st.Path); err == nil && s.dir == dir && s.keep(l, st) {
			return
		}
	}
	l.close(slots.ErrClosed)
}

// Quit makes shims leave the slots without a running agent, which they would otherwise keep some time
// for another start. A shim without slots ends. It waits for the last lines for Options.Output.
func (r *Runtime) Quit(ctx context.Context) error {
	idle := r.quitIdle(ctx)
	return r.each(nil, func(dir string) {
		l, err := r.link(ctx, dir)
		if err != nil {
			r.drain(dir) // it has ended, or will on its own
			return
		}
		if !idle[l.conn] {
			l.listen(nil)
			_, err = l.call(ctx, wire.Message{Type: wire.Quit})
		}
		l.close(slots.ErrClosed)
		if err == nil || errors.Is(err, errLinkLost) || errors.Is(err, wire.ErrNotServed) {
			r.drain(dir)
		}
	})
}

// each calls f for the directories of the selected slots, some of them in parallel.
func (r *Runtime) each(which func(name string) bool, f func(dir string)) error {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return fmt.Errorf("listing the slots: %w", err)
	}
	ahead := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for _, e := range entries {
		if !e.IsDir() || which != nil && !which(e.Name()) {
			continue
		}
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			f(filepath.Join(r.Dir, e.Name()))
		})
	}
	wg.Wait()
	return nil
}

// isLeft reports whether a slot could not be reached because no shim answers for it, or no longer.
func isLeft(err error) bool {
	return errors.Is(err, wire.ErrNotServed) || errors.Is(err, errLinkLost) || wire.IsMissing(err)
}

// look observes a slot without changing it; it returns nil if the slot is empty.
func (r *Runtime) look(
	ctx context.Context, dir string, answered func(dir string, l *link, st *wire.State),
) *runtime.Observation {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	link, st, dialErr := r.dial(ctx, dir)
	locked, err := wire.Locked(dir)
	// A shim that leaves the slot refuses clients, and has the lock until all is recorded.
	for begin := time.Now(); locked && isLeft(dialErr) && time.Since(begin) < wakeTime; {
		<-time.After(findPause)
		link, st, dialErr = r.dial(ctx, dir)
		locked, err = wire.Locked(dir)
	}
	if dialErr == nil {
		answered(dir, link, st)
		if st.Incarnation == 0 {
			return nil
		}
		return withBefore(dir, observation(st))
	}
	unknown := func(st *wire.State, why error) *runtime.Observation {
		return &runtime.Observation{Path: cmp.Or(st.Path, filepath.Base(dir)), Incarnation: st.Incarnation,
			SpecHash: st.SpecHash, Token: st.Token, Detail: why.Error()}
	}
	st, serr := wire.ReadState(dir)
	switch {
	case err != nil:
		return unknown(st, err)
	case locked:
		return unknown(st, fmt.Errorf("a shim is running, but: %w", dialErr))
	case errors.Is(serr, fs.ErrNotExist):
		return nil
	case serr != nil:
		return unknown(new(wire.State), serr)
	case r.serves(ctx, st.Shim, dir):
		return unknown(st, fmt.Errorf("shim %d is running, but does not hold the lock of the slot", st.Shim.PID))
	}
	recorded := st.LoadEnd(dir)
	o := observation(st)
	o.Unrecorded = !recorded
	return withBefore(dir, o)
}

// Remembers returns how many ends before that of its last incarnation a slot knows.
func (r *Runtime) Remembers(string) int { return wire.Remembered }

// withBefore adds the ends of earlier incarnations. The exit record is replaced when the next
// incarnation ends, not when it starts, and keeps the ends before it.
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

// observation returns the public part of a state.
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
