// Package tmux runs agents in a tmux server of the project, for people who want to work in the
// session of an agent. Each slot is a session with one window and one pane, in which one
// incarnation after the other runs.
//
// tmux is trusted with the terminal and with the exit status only. The state of a slot is
// decided by evidence (see judge): the exit record, the identity of the agent's process, the
// answers of the server, and the identity of the server. The state is unknown if the server does
// not respond. If the server has ended, its agents have ended with it.
//
// The programs of package pane do the rest: a launcher in the pane becomes the agent when the
// daemon says so, and a keeper writes the output log.
package tmux

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
)

// Options configure a Runtime.
type Options struct {
	// Dir holds the slots and the socket of the server. It is created if necessary, and must
	// belong to this user alone.
	Dir string
	// Deadline is a file of package deadline, which exists; empty if there is none. The keepers end all agents at that
	// deadline.
	Deadline string
	// Output, if not nil, gets each line of each agent, one call at a time for an agent and in
	// order. The lines are read from the log: a slow reader delays nothing, and misses lines
	// that are rotated away meanwhile. A line then says so.
	Output func(path string, incarnation uint64, line proc.Line)
	// Logger may be nil.
	Logger *slog.Logger
}

// Runtime implements runtime.Runtime with tmux. A program that uses it must call pane.Main if
// its first argument is pane.Arg.
type Runtime struct {
	*slots.Table[*slot]
	expiry   string // Options.Deadline
	output   func(string, uint64, proc.Line)
	log      *slog.Logger
	sweeper  proc.Sweeper
	checkNow chan struct{} // makes watchServer check the server immediately
	calls    chan struct{} // a semaphore for calls of tmux

	mu          sync.Mutex // the lock of Table may be taken while it is held
	sessions    map[*session]struct{}
	listening   map[*session]chan struct{} // by session, for Options.Output; closed after the last line
	checked     bool                       // the version of tmux is sufficient
	serverError string                     // why the server is not known to work; empty if it works
	hangs       bool                       // it runs, but does not respond
	lastWake    time.Time
	watching    bool
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ runtime.Expirer = (*Runtime)(nil)
)

// Open returns a Runtime. It does not need tmux yet: see Version.
func Open(o Options) (*Runtime, error) {
	if o.Deadline != "" {
		if err := deadline.CheckPath(o.Deadline); err != nil {
			return nil, err
		}
	}
	r := &Runtime{
		expiry: o.Deadline, output: o.Output, log: o.Logger,
		checkNow: make(chan struct{}, 1), calls: make(chan struct{}, maxCalls),
		sessions: make(map[*session]struct{}), listening: make(map[*session]chan struct{}),
	}
	var err error
	r.Table, err = slots.Open(o.Dir, func(path, dir string) *slot {
		return &slot{r: r, path: path, name: filepath.Base(dir), dir: dir, turn: make(chan struct{}, 1),
			writer: make(chan struct{}, 1)}
	})
	if err != nil {
		return nil, err
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// Kind returns "tmux".
func (r *Runtime) Kind() string { return "tmux" }

// both returns a context that ends with ctx or with the runtime.
func (r *Runtime) both(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.Ctx, func() { cancel(slots.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// List is part of runtime.Runtime. It asks the server once.
func (r *Runtime) List(ctx context.Context) ([]runtime.Observation, error) {
	return r.ListSome(ctx, nil)
}

// ListSome is List for the slots whose directory names are selected; a nil function selects all.
func (r *Runtime) ListSome(ctx context.Context, which func(name string) bool) ([]runtime.Observation, error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("listing the slots: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && (which == nil || which(e.Name())) {
			dirs = append(dirs, filepath.Join(r.Dir, e.Name()))
		}
	}
	if len(dirs) == 0 {
		return nil, context.Cause(ctx)
	}
	answer := r.panes(ctx, "")
	if ctx.Err() != nil {
		return nil, fmt.Errorf("listing the slots: %w", context.Cause(ctx))
	}
	var all []runtime.Observation
	for _, dir := range dirs {
		if o := look(dir, answer); o != nil {
			all = append(all, *o)
		}
	}
	return all, nil
}

// look observes a slot without changing it; it returns nil if the slot is empty.
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
		if o.Unrecorded = end == nil; o.Unrecorded {
			end = wire.NewEnd(exitOf(dir, rec, v, nil), v.at(rec, time.Now()))
		}
		o.Exit, o.ExitedAt = end.Exit(), end.At
	}
	return o
}
