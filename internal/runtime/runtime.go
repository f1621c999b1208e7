// Package runtime defines how agents run outside of this program. Each agent has a slot, in
// which one incarnation after the other runs, with or without a daemon. An agent outlives the
// daemon, and the next daemon finds it.
//
// The kinds of runtimes are in the packages below: shim (processes that serve some slots each) and
// tmux (a session for each slot). runtimetest tests both against this interface.
package runtime

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// Errors of runtimes. They are wrapped, together with their subject.
var (
	// ErrUnknown means that it cannot be determined now whether an incarnation runs in the slot.
	// Nothing may be started, stopped or removed because of it.
	ErrUnknown = errors.New("state unknown")
	// ErrBusy means that an incarnation already runs in the slot.
	ErrBusy = errors.New("slot is in use")
	// ErrStale means that the requested incarnation is not newer than the last one of the slot,
	// or that a message came from an incarnation that is over.
	ErrStale = errors.New("incarnation is over")
	// ErrEnded means that the incarnation has ended.
	ErrEnded = errors.New("incarnation has ended")
	// ErrUnsupported means that this kind of runtime cannot do that.
	ErrUnsupported = errors.New("not supported by this runtime")
	// ErrOverdue means that the incarnation has exceeded its Launch.Timeout.
	ErrOverdue = errors.New("timeout exceeded")
	// ErrFenced means that the node has no lease now, so that nothing may be started on it: see package deadline.
	ErrFenced = errors.New("node has lost its lease")
	// ErrDeadline means that the incarnation was stopped because the lease of its node has ended, or because the node
	// has left the fleet, which the text says then. Its exit is a failure: it did not complete, and may run on another
	// node.
	ErrDeadline = errors.New("stopped because the lease of the node has ended")
	// ErrNodeLost means that the node of the incarnation no longer belongs to the fleet, and that the incarnation has
	// ended for certain.
	ErrNodeLost = errors.New("its node is lost")
	// ErrNoNode means that no node of the fleet takes the agent now. It says nothing about the agent.
	ErrNoNode = errors.New("it has no node")
	// ErrWriter means that another client is attached as the writer.
	ErrWriter = errors.New("another client has the input")
)

// Launch describes one incarnation of an agent.
type Launch struct {
	Path           string // of the agent; determines the slot
	Incarnation    uint64 // must be greater than the last one of the slot
	ResetNumbering bool   // numbering starts again: the number need not be greater
	SpecHash       string // Sum of the spec.Hash of the declared agent
	Token          string // distinguishes this start from any other; see Observation. Random if empty
	Argv           []string
	Dir            string
	Env            []string // complete
	// Inherited are the names of variables that another machine of a fleet has of its own; see proc.Move.
	Inherited  []string
	Stdin      string // path of a file; /dev/null if empty
	Input      bool   // stdin is a pipe for Session.Write, instead of Stdin
	StopSignal syscall.Signal
	Grace      time.Duration // from StopSignal to SIGKILL, unless a stop extends it
	// Timeout bounds the lifetime; 0 means no bound. After it the incarnation is stopped, and
	// killed after Grace with all that it has started, even if no daemon runs. Its exit is then
	// a failure that wraps ErrOverdue. Only "proc" supports it.
	Timeout    time.Duration
	Ready      spec.Ready
	Notify     bool          // gets a NOTIFY_SOCKET, see package sdnotify; implied by Ready.Notify
	Watchdog   time.Duration // interval of WATCHDOG=1 that the agent has to keep; 0 means none
	Terminal   bool          // a pseudo terminal instead of pipes
	Rows, Cols uint16
	Limits     Limits
	// NoNewPrivileges keeps the agent, its descendants and Ready.Exec from gaining privileges by
	// execve, as set-user-ID programs do. Linux only.
	NoNewPrivileges bool
	// Paths limits where the agent, its descendants and Ready.Exec may write; nil means no limit.
	// Only "proc" supports it.
	Paths *landlock.Paths
	// User is the account that the agent and Ready.Exec run as; nil means that of this program.
	// Only "proc" supports it.
	User *account.Account
	Log  Log
	// Home is a directory that other machines of a fleet may have at another place: there, Dir, Stdin and Paths in it
	// are those in theirs. Empty: no directory is.
	Home string
	// Lease is the epoch of the lease of another node under which the incarnation is to run; 0: any. The start fails
	// with ErrFenced if the node has another one.
	Lease uint64
	// Program has the agent, by its path, instead of a command; nil if it is a command. Only "proc"
	// supports it.
	Program *spec.Program
	// Files are written before the incarnation starts, into the directory of the agent that proc.EnvFiles names to it;
	// nil if there are none. Only "proc" supports them.
	Files *Files `json:",omitempty"`
}

// Files are files of an agent, which package runfiles keeps, by names without a directory.
type Files struct {
	Write  map[string][]byte
	Remove []string // what an earlier incarnation has written
}

// FileReader is a Runtime that supports Launch.Files.
type FileReader interface {
	// ReadFile returns a file in the directory of an agent, if that is the one of an incarnation, or of any if its
	// number is 0. The error wraps fs.ErrNotExist if there is none, ErrUnknown while the machine with it does not
	// answer, and ErrNodeLost if that is lost.
	ReadFile(ctx context.Context, path string, incarnation uint64, name string) ([]byte, error)
}

// Limits bound an incarnation with all its descendants if control groups with the needed
// controllers are delegated (see package cgroup). Otherwise they bound each process: memory is
// its address space, processes are those of the user, and CPU is not bounded. Zero means no
// limit.
type Limits struct {
	Memory    int64   // bytes
	CPU       float64 // cores
	OpenFiles uint64  // of each process
	Processes uint64  // including threads; at least 16 if control groups count them
}

// Log bounds the output that is kept of a slot.
type Log struct {
	MaxSize int64 // bytes of a file before it is rotated; 10 MiB if zero
	Keep    int   // rotated files; 3 if zero
}

// Life is the observed state of an incarnation.
type Life uint8

const (
	Unknown Life = iota // cannot be determined; never a reason to act
	Alive
	Dead
)

// Observation is the observed state of a slot.
type Observation struct {
	Path        string
	Incarnation uint64
	SpecHash    string
	Token       string // of its Launch; empty if unknown
	Life        Life
	Ready       bool            // if Alive: its readiness condition was met
	PID         int             // if Alive: of the agent, on its machine
	Node        string          // the machine, if it is another one of a fleet; empty if it is this one
	StartedAt   time.Time       // of its process, or of the attempt to start it; zero if unknown
	Exit        supervisor.Exit // if Dead; Lost if the end was not observed
	ExitedAt    time.Time       // if Dead
	Detail      string          // for people, if Life is Unknown
	// Unrecorded means, if Dead, that the slot has no record of the end: what the incarnation has
	// left behind may still run. Adopt kills that and records the end.
	Unrecorded bool
	// Said is what the incarnation reported about itself. While there is a listener, its times
	// have monotonic clock readings.
	Said sdnotify.Notice
	// Before lists the ends of earlier incarnations that the slot still knows, oldest first. The
	// daemon that started them may have had no time to record them.
	Before []Ended
}

// Ended describes the end of an incarnation.
type Ended struct {
	Incarnation uint64
	ExitedAt    time.Time
	Exit        supervisor.Exit
}

// Runtime starts agents and finds them again.
type Runtime interface {
	// Kind returns the name of the runtime: "proc" or "tmux".
	Kind() string

	// Start starts an incarnation and returns when it is ready. It fails with ErrBusy, ErrStale,
	// ErrFenced or ErrUnknown, or with an error that wraps supervisor.ErrNotReady or a proc.ExitError.
	// After a failure other than ErrUnknown, nothing runs in the slot that did not run before.
	// If ctx is done first, the start is given up.
	Start(ctx context.Context, l Launch) (Session, error)

	// Adopt takes over the last incarnation of a slot, running or ended. Done and Exit report an
	// end that came before as if it happened now. The incarnation may not be ready yet: see
	// Session.AwaitReady. The error wraps fs.ErrNotExist if there never was one, and ErrUnknown
	// if the caller should try again later.
	Adopt(ctx context.Context, path string) (Session, error)

	// Ready records that an incarnation with spec.Ready.Notify has reported that it is ready;
	// that is final. It fails with ErrStale, ErrEnded, or ErrUnknown if the incarnation is not
	// known to run.
	Ready(ctx context.Context, path string, incarnation uint64) error

	// List returns the state of all slots. An error means that nothing is known, not that there
	// are none. A slot that cannot be examined is listed as Unknown.
	List(ctx context.Context) ([]Observation, error)

	// Log returns the name of the file with the output of a slot, for package logfile. The file
	// need not exist.
	Log(path string) (string, error)

	// Remove deletes a slot in which nothing runs. Its log is kept for a week: Log finds it, and
	// the next incarnation continues it. Remove fails with ErrBusy or ErrUnknown.
	Remove(ctx context.Context, path string) error

	// Removed returns the paths of the agents whose slots were removed and whose logs are kept.
	Removed() ([]string, error)

	// Close releases all resources; the agents continue to run.
	Close() error
}

// Expirer is a Runtime whose agents end at the deadline of this node: see package deadline.
type Expirer interface {
	// CheckDeadline has the processes next to the agents read the deadline again, which may have come earlier than they
	// know. If it is over they end the agents, as they do at any deadline. It does not wait for that, and leaves those
	// that do not answer to the guard.
	CheckDeadline(ctx context.Context)
}

// Owner is a Runtime that knows which processes belong to its agents.
type Owner interface {
	// Owner returns the path of the agent that a process belongs to, and the index in its
	// lineage at which that agent begins; the lowest index is the nearest agent. The index is
	// negative if the process belongs to none. The path is empty if the agent cannot be named.
	Owner(l proc.Lineage) (path string, at int)
}

// Session is one incarnation, for supervisors and people. Done is closed when its end is
// certain, because of an exit record or because its shim has ended, but never because a
// connection was lost. Stop and Kill return no error and are repeated until they were delivered
// or the incarnation has ended.
type Session interface {
	Done() <-chan struct{}
	Exit() supervisor.Exit // valid after Done is closed
	Stop()
	Kill()
	Observe() Observation
	// AwaitReady waits until the incarnation is ready; it fails as Start does.
	AwaitReady(ctx context.Context) error
	Signal(ctx context.Context, sig syscall.Signal) error
	// Write writes to the terminal, or to stdin if that is a pipe.
	Write(ctx context.Context, data []byte) error
	Resize(ctx context.Context, rows, cols uint16) error
	// Peek returns the last n lines of output, without escape sequences. It also works after the
	// end.
	Peek(ctx context.Context, n int) ([]string, error)
	// LastActivity returns when the agent last wrote or read something, or else when it was
	// started. Zero or ErrUnsupported mean that this kind of runtime cannot tell; ErrUnknown
	// means not now.
	LastActivity(ctx context.Context) (time.Time, error)
	// Attach connects a person until ctx is done, the input ends or the incarnation does. Any
	// number may watch, one may write (ErrWriter).
	Attach(ctx context.Context, a Attachment) error
	// Follow calls grew immediately, and whenever the log of the slot may have grown, until ctx
	// is done or the incarnation has ended. A reader that continues at the same place in the log
	// for each incarnation misses and repeats nothing.
	Follow(ctx context.Context, grew func()) error
}

// Unfinished is implemented by Sessions that know the last line of output before its end was
// written.
type Unfinished interface {
	// Unfinished calls f with what there is of the last line, immediately and whenever it has
	// changed; "" means that there is none. It returns when ctx is done or the incarnation has
	// ended.
	Unfinished(ctx context.Context, f func(text string)) error
}

// Attachment is the person's side of an Attach.
type Attachment struct {
	Input  io.Reader // nil to watch only
	Output io.Writer
	Sizes  <-chan [2]uint16 // rows and columns of the person's terminal; may be nil
	// Earlier is the number of bytes of this incarnation's earlier output to write first. 0 writes the last few lines,
	// which may be those of a previous incarnation. A runtime that draws the whole screen ignores it.
	Earlier int
	// Resized is called with the size of the agent's terminal, before the output unless an older shim does not tell,
	// and whenever it changes; may be nil.
	Resized func(rows, cols uint16)
}
