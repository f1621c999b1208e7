// Package runtime defines how agents run outside of this program. Each agent has
// a slot, in which one incarnation after the other runs, with or without a daemon.
// What runs there outlives the daemon, and the next daemon finds it.
//
// The kinds are in the packages below: proc (a shim process for each slot) and
// tmux (a session for each slot). runtimetest tests both of them against what is
// said here. inproc runs functions of this program, which do not outlive it.
package runtime

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Errors. What they are about is wrapped around them.
var (
	// ErrUnknown: it cannot be told now whether something runs in the slot.
	// Nothing may be started, stopped or removed because of it.
	ErrUnknown = errors.New("state unknown")
	// ErrBusy: an incarnation lives in the slot already.
	ErrBusy = errors.New("slot is in use")
	// ErrStale: the incarnation asked for is not newer than the last one of
	// the slot, or a message came from an incarnation that is over.
	ErrStale = errors.New("incarnation is over")
	// ErrEnded: the incarnation has ended.
	ErrEnded = errors.New("incarnation has ended")
	// ErrUnsupported: this kind of runtime cannot do that.
	ErrUnsupported = errors.New("not supported by this runtime")
	// ErrOverdue: the incarnation has lived for longer than its Launch.Timeout.
	ErrOverdue = errors.New("timeout exceeded")
	// ErrWriter: somebody else is attached as the writer.
	ErrWriter = errors.New("another client has the input")
)

// Launch is what one incarnation of an agent runs.
type Launch struct {
	Path           string // of the agent; names the slot
	Incarnation    uint64 // must be greater than the last one of the slot
	ResetNumbering bool   // numbers begin again with this one: it need not be greater
	SpecHash       string // Sum of the spec.Hash of what is declared
	Token          string // tells this start from any other; see Observation. Random if empty
	Argv           []string
	Dir            string
	Env            []string // complete
	Stdin          string   // path of a file; the null device if empty
	Input          bool     // stdin is a pipe for Session.Write, instead of Stdin
	StopSignal     syscall.Signal
	Grace          time.Duration // from StopSignal to SIGKILL, unless a stop says otherwise
	// Timeout is how long it may live; 0: for ever. Then it is stopped, and is
	// killed after Grace with all that it has started, whether a daemon watches
	// or not; its exit is a failure that wraps ErrOverdue. Only "proc" knows it.
	Timeout    time.Duration
	Ready      spec.Ready
	Notify     bool          // it is given a place to speak of itself, see package sdnotify; Ready.Notify implies that
	Watchdog   time.Duration // it is told that WATCHDOG=1 has to come that often; 0: never. Runtimes do not act on it
	Terminal   bool          // a pseudo terminal instead of pipes
	Rows, Cols uint16
	Limits     Limits
	// NoNewPrivileges keeps it, its descendants and Ready.Exec from gaining
	// privileges by what they execute, as set-user-ID programs do. Linux only.
	NoNewPrivileges bool
	// User is whom it and Ready.Exec run as, if that is not who runs this
	// program. Only "proc" knows it.
	User *account.Account
	Log  Log
	// Run is what it does where nothing of the above is executed: see package inproc.
	Run func(context.Context) error `json:"-"`
}

// Limits bound an incarnation with all its descendants where control groups
// with the controller in question are delegated (see package cgroup), and each
// of its processes where not: memory is its address space then, processes are
// those of the user, and CPU is not bounded. Zero is no limit.
type Limits struct {
	Memory    int64   // bytes
	CPU       float64 // cores
	OpenFiles uint64  // of each process
	Processes uint64  // threads count; 16 at least where control groups count them
}

// Log bounds the output that is kept of a slot.
type Log struct {
	MaxSize int64 // bytes of a file before it is rotated; 10 MiB if zero
	Keep    int   // rotated files; 3 if zero
}

// Life is what is known of an incarnation.
type Life uint8

const (
	Unknown Life = iota // cannot be told; never a reason to act
	Alive
	Dead
)

// Observation is what a look at a slot has found.
type Observation struct {
	Path        string
	Incarnation uint64
	SpecHash    string
	Token       string // of its Launch; empty if it is not known
	Life        Life
	Ready       bool            // Alive, and its readiness condition was met
	PID         int             // of the agent, Alive
	StartedAt   time.Time       // zero if it could not be started
	Exit        supervisor.Exit // Dead; Lost where the end was not observed
	ExitedAt    time.Time       // Dead
	Detail      string          // for people, where Life is Unknown
	// of itself; its times have readings of the monotonic clock while there is a listener
	Said sdnotify.Notice
	// Before are the ends of incarnations before this one that the slot still
	// knows, oldest first: who started this one may not have had the time to tell.
	Before []Ended
}

// Ended is the end of an incarnation.
type Ended struct {
	Incarnation uint64
	ExitedAt    time.Time
	Exit        supervisor.Exit
}

// Runtime starts agents and finds them again.
type Runtime interface {
	// Kind is the name of the runtime: "proc", "tmux", "inproc".
	Kind() string

	// Start begins an incarnation and returns when it is ready. It fails with
	// ErrBusy, ErrStale, ErrUnknown, or, as a start of the supervisor does,
	// with an error that wraps supervisor.ErrNotReady or a proc.ExitError.
	// When it fails for another reason than ErrUnknown, nothing runs in the
	// slot that did not before. The end of ctx gives the start up.
	Start(ctx context.Context, l Launch) (Session, error)

	// Adopt takes over the last incarnation of a slot, living or dead: its
	// end, if it has come already, is told by Done and Exit as if it happened
	// now. The incarnation may still be on its way to readiness: see
	// Session.AwaitReady. fs.ErrNotExist: there never was one; ErrUnknown:
	// try again later.
	Adopt(ctx context.Context, path string) (Session, error)

	// Ready says for an incarnation that says itself when it is ready
	// (spec.Ready.Notify) that it is. ErrStale, ErrEnded, ErrUnknown: it is not
	// known to live, or not yet. One that is ready stays so.
	Ready(ctx context.Context, path string, incarnation uint64) error

	// List looks at all slots. An error means that nothing is known, not that
	// there are none; a slot that cannot be looked at is listed as Unknown.
	List(ctx context.Context) ([]Observation, error)

	// Log returns the name of the file that keeps the output of a slot, for package
	// logfile. It need not be there.
	Log(path string) (string, error)

	// Remove forgets a slot in which nothing lives, with its log. ErrBusy, ErrUnknown.
	Remove(ctx context.Context, path string) error

	// Close lets go of everything; what runs goes on.
	Close() error
}

// Owner is a Runtime that knows which processes belong to its agents.
type Owner interface {
	// Owner returns the path of the agent that a process belongs to, and at
	// which of the processes of its lineage that agent begins: the lower the
	// number, the nearer. It is negative if the process belongs to none. The
	// path is empty if it belongs to one that cannot be named.
	Owner(l proc.Lineage) (path string, at int)
}

// Session is one incarnation, as a supervisor and people deal with it. Done
// is closed when its end is known for certain, by an exit record or because
// its shim has ended, never because a connection was lost. Stop and Kill do
// not return an error and are repeated until they have arrived or it ended.
type Session interface {
	supervisor.Process
	Observe() Observation
	// AwaitReady waits until the incarnation is ready; it fails as Start does.
	AwaitReady(ctx context.Context) error
	Signal(ctx context.Context, sig syscall.Signal) error
	// Write types into the terminal, or writes to stdin where that is a pipe.
	Write(ctx context.Context, data []byte) error
	Resize(ctx context.Context, rows, cols uint16) error
	// Peek returns the last n lines of output, without escape sequences. It
	// works after the end, too: the post-mortem.
	Peek(ctx context.Context, n int) ([]string, error)
	// LastActivity is when it last wrote or read something, or was started if
	// it has not since. Zero, or ErrUnsupported: this kind of runtime cannot
	// tell; ErrUnknown: not now.
	LastActivity(ctx context.Context) (time.Time, error)
	// Attach connects a person until ctx is done, the input ends or the
	// incarnation does. Any number may watch, one may write (ErrWriter).
	Attach(ctx context.Context, a Attachment) error
	// Follow calls grew at once, and whenever there may be more in the log of the
	// slot, until ctx is done or the incarnation has ended. Who reads on from the
	// same place in the log, incarnation after incarnation, misses and repeats
	// nothing.
	Follow(ctx context.Context, grew func()) error
}

// Unfinished is what a Session may be, too.
type Unfinished interface {
	// Unfinished sends what there is of the last line of output while its end was not
	// written, at once and whenever that has changed ("": there is none), to f until
	// ctx is done or the incarnation has ended.
	Unfinished(ctx context.Context, f func(text string)) error
}

// Attachment is the person's end of an Attach.
type Attachment struct {
	Input  io.Reader // nil: only watch
	Output io.Writer
	Sizes  <-chan [2]uint16 // rows, columns of the person's terminal; may be nil
}
