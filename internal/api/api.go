// Package api is how programs talk to a daemon: HTTP and JSON over a unix
// socket, a server for the daemon and a client for everybody else.
//
// A feature declares what it can be asked as typed routes, handles them with
// Route.Handle, and its callers use Route.Call. The server checks who asks, turns
// errors into status codes and back, and describes the routes by their types: the
// tag json names a field, which is required unless it says omitempty or omitzero;
// the tags doc, minimum, maxLength and enum describe it, and the tags doc and
// schema of a field named _ describe and name the type. What no feature has
// declared yet is in the interface Daemon.
package api

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// Errors that survive the wire: the client returns what the service did.
var (
	ErrNotFound = errors.New("no such node")         // 404; exit code 3
	ErrConflict = errors.New("not possible now")     // 409: it runs already, it is restarting, ...
	ErrInvalid  = errors.New("invalid request")      // 400; exit code 2
	ErrDown     = errors.New("no daemon is running") // the client's own; exit code 69
	ErrStopping = errors.New("daemon is stopping")   // 503; or not there yet

	// The client's own, too: the answer did not come. It is not known whether
	// the request was carried out.
	ErrLost = errors.New("the connection to the daemon was lost")

	// Of agents; exit code 77.
	ErrStale        = errors.New("incarnation is over") // 410
	ErrUnauthorized = errors.New("not allowed")         // 401
)

// Daemon is what a daemon answers apart from the routes that features own.
type Daemon interface {
	Service
	Access
	Health
	Selves
	Drains
	Unfinished
	Farewells
	Patrols
	Beliefs
	OwnBeliefs
	Tasks
	Orders
}

// Service is what people can ask of a daemon. Paths name nodes, such as "app/db/monitor";
// the first segment may be left out. Errors wrap those above.
type Service interface {
	Status(ctx context.Context) (Status, error)
	// Nodes lists the tree below a path ("" is everything), parents first, siblings in start order.
	Nodes(ctx context.Context, path string) ([]Node, error)
	Explain(ctx context.Context, path string) (Explanation, error)

	// Act does something to a node, and with a supervisor to all below it,
	// and returns when it is done. What is so already is no error.
	Act(ctx context.Context, path string, action Action) (Acted, error)
	// Down stops everything in order and ends the daemon. With keep, agents go
	// on without it. It returns when the daemon has begun to.
	Down(ctx context.Context, keep bool) error

	// Events yields the events that are asked for, in order.
	Events(ctx context.Context, q event.Query) iter.Seq2[event.Event, error]
	// Logs yields lines of the output of agents, in the order of time.
	Logs(ctx context.Context, q LogQuery) iter.Seq2[LogLine, error]
	// Attach connects a person with an agent's terminal. See runtime.Attachment.
	Attach(ctx context.Context, path string, input io.Reader, output io.Writer, sizes <-chan [2]uint16) error
}

// Action is what Act does.
type Action string

const (
	Start   Action = "start"   // what is stopped, suspended or held back by a limit
	Stop    Action = "stop"    // until Start; survives the daemon
	Restart Action = "restart" // stop and start; no failure is counted
	Reset   Action = "reset"   // counters and limits start afresh; what is held starts
	Suspend Action = "suspend" // as Stop, for what will be resumed
	Resume  Action = "resume"  // what is suspended, or paused by a limit
)

// Actions are all there are.
func Actions() []Action { return []Action{Start, Stop, Restart, Reset, Suspend, Resume} }

// ActRequest is the body of POST /v1/act.
type ActRequest struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
}

// Acted is what Act has done.
type Acted struct {
	Changed int      `json:"changed"` // how many nodes it was done to
	Already []string `json:"already"` // paths of agents that ran, or were stopped by hand, already
}

// DownRequest is the body of POST /v1/down.
type DownRequest struct {
	Keep bool `json:"keep"` // the agents go on
}

// LogQuery says which output is wanted.
type LogQuery struct {
	Paths  []string  // of agents, and of supervisors, which mean all agents below them; none: all
	Lines  int       // the last ones of each agent; negative: all that there are
	Since  time.Time // those written from then on; zero: at any time
	Grep   string    // those that match, a regular expression (RE2); empty: all
	Follow bool      // those that come, too, also of agents that are started later
	// After is where to go on, by the path of an agent: the Position of its last line
	// that is known. For those agents it counts instead of Lines and Since.
	After map[string]string
}

// LogLine is a message of the stream of GET /v1/logs: a line, or the place between
// two incarnations.
type LogLine struct {
	Path        string    `json:"path"` // of the agent
	Line        string    `json:"line"` // may contain escape sequences
	Time        time.Time `json:"time,omitzero"`
	Incarnation uint64    `json:"incarnation,omitempty"` // that wrote it; 0: not known
	Between     *Between  `json:"between,omitempty"`     // there is no line then
	Position    string    `json:"position,omitempty"`    // where a follower goes on
	// Live is the only field of one message to a follower: what comes is new. A
	// Client passes it on once, however often it connects.
	Live bool `json:"live,omitempty"`
}

// Between is where the output of an incarnation ends, where that of the next one
// begins, or both.
type Between struct {
	Ended   uint64    `json:"ended,omitempty"` // the number of an incarnation; 0: none
	EndedAt time.Time `json:"ended_at,omitzero"`
	Exit    string    `json:"exit,omitempty"`  // how it ended; empty: not known
	Began   uint64    `json:"began,omitempty"` // at the time of the message; 0: none
}

// Status is the daemon and its fleet in short.
type Status struct {
	Project    string     `json:"project"`
	Controller Controller `json:"controller"`
	// agents by state; every state is there, and idle and done if there are such of Aidefiles
	Summary    map[string]int `json:"summary"`
	Suspended  string         `json:"suspended,omitempty"` // why the whole project is; empty if it is not
	NeedsInput int            `json:"needs_input"`         // agents that wait for an answer; they are in Summary, too
	Attention  []Attention    `json:"attention"`           // what is not well or needs a person, never null
	Inbox      Inbox          `json:"inbox"`
	Store      Store          `json:"store"`
	Config     Config         `json:"config"`
	Pools      []PoolAt       `json:"pools,omitempty"`
	Orders     *OrderCounts   `json:"orders,omitempty"` // nil if there are none
}

// Attention names something that is not well or needs a person. Besides the states of a node, State has:
//
//   - crash_loop, restart_loop: an agent ends soon after each start;
//   - failing: an agent runs, and has failed at least three times within its limit's window;
//   - unresponsive: an agent runs, and is silent for longer than it may be;
//   - needs_input: an agent waits for an answer;
//   - rejected: a later version of the file was rejected.
type Attention struct {
	Path    string     `json:"path"`              // of a node; of the file where that was rejected
	State   string     `json:"state"`             // of the node, or what matters more
	Reason  string     `json:"reason"`            // in a line
	NextAt  *time.Time `json:"next_at,omitempty"` // when it goes on by itself
	Command string     `json:"command"`           // that helps, or two: first, then second
	// LastOutput is the last line that an agent wrote, where it is down because it fails.
	LastOutput string `json:"last_output,omitempty"`
}

// States of an Attention about what is well, and needs a person all the same.
const (
	Rejected    = "rejected"
	NeedsAnswer = "needs_input"
)

// Unwell reports whether something does not run as it should, rather than wait for a person.
func (a Attention) Unwell() bool { return a.State != Rejected && a.State != NeedsAnswer }

// Controller is the daemon itself.
type Controller struct {
	PID       int       `json:"pid"`  // 0 if none runs: see Records
	Node      string    `json:"node"` // name of the machine
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Uptime    float64   `json:"uptime_seconds"`
}

// Inbox is how much waits for people.
type Inbox struct {
	Questions int `json:"questions"` // open
	Mail      int `json:"mail"`      // unread
	Parked    int `json:"parked"`    // tasks whose claims have failed too often
}

// Store says whether state is being kept.
type Store struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"` // why not
}

// Config is the file in force.
type Config struct {
	Path      string    `json:"path"`
	Revision  string    `json:"revision"` // of its content
	LoadedAt  time.Time `json:"loaded_at"`
	LastError string    `json:"last_error,omitempty"` // of a later version that was refused
}

// Node is a supervisor or an agent.
type Node struct {
	Path        string `json:"path"`
	Kind        string `json:"kind"` // supervisor, agent
	Strategy    string `json:"strategy,omitempty"`
	Runtime     string `json:"runtime,omitempty"`
	Terminal    bool   `json:"terminal,omitempty"` // of an agent: Attach finds a terminal
	State       string `json:"state"`
	Reason      string `json:"reason"`
	PID         int    `json:"pid,omitempty"`
	Node        string `json:"node"`
	Incarnation uint64 `json:"incarnation"`
	Restarts    int    `json:"restarts"`          // all there were, for whatever reason
	Loop        Loop   `json:"loop,omitempty"`    // of an agent that ends soon after each start
	Restart     string `json:"restart,omitempty"` // always, on-failure, never; not of the root

	// The limit of a node. That of a supervisor is what its children share or, if they share none, what
	// counts its own starts.
	InWindow    int     `json:"in_window"`                      // counted by its limit at this moment
	LimitMax    int     `json:"limit_max"`                      // how many may be; -1 if it has no limit of its own
	LimitCounts string  `json:"limit_counts,omitempty"`         // starts, restarts, consecutive restarts, failures
	LimitWindow float64 `json:"limit_window_seconds,omitempty"` // in which they count; 0: for ever
	Limit       string  `json:"limit"`                          // in words
	LimitOf     string  `json:"limit_of,omitempty"`             // path of the supervisor whose limit counts instead

	StartedAt  *time.Time `json:"started_at,omitempty"`
	Uptime     float64    `json:"uptime_seconds,omitempty"`
	NextAt     *time.Time `json:"next_at,omitempty"`
	LastExit   string     `json:"last_exit,omitempty"`
	Failed     bool       `json:"failed,omitempty"`       // the last exit was a failure
	TooOftenBy string     `json:"too_often_by,omitempty"` // name of the order that has started it too often
	StatusText string     `json:"status_text,omitempty"`  // what an agent that runs says of itself, see docs/notify.md
	Vitals     *Vitals    `json:"vitals,omitempty"`       // of an agent that lives and has said something, or has to
	Drain      *Drain     `json:"drain,omitempty"`        // of an agent that is to finish
	Aide       *Aide      `json:"aide,omitempty"`         // of an agent of an Aidefile
	User       string     `json:"user,omitempty"`         // that an agent runs as, where it is not the daemon's
	// NoNewPrivileges: an agent that cannot gain privileges by what it executes.
	NoNewPrivileges bool `json:"no_new_privileges,omitempty"`
	// StoppedByHand: a person has stopped or drained it, and only a start brings it back.
	StoppedByHand bool `json:"stopped_by_hand,omitempty"`
	// NeedsInput is what an agent, or a supervisor that its limit has paused, waits for a person to say; it
	// has the state of its supervisor all the same.
	NeedsInput *NeedsInput `json:"needs_input,omitempty"`
	Pool       *Pool       `json:"pool,omitempty"` // of a supervisor that is a pool
}

// Loop tells how an agent ends that is restarted again and again: LoopEnds times
// in a row it has lived only for a short time.
type Loop string

// The values of Loop; "" where there is none.
const (
	CrashLoop Loop = "crash" // the last time it failed
	CleanLoop Loop = "clean" // the last time it ended with exit code 0
)

// LoopEnds is how many ends in a row make a loop.
const LoopEnds = 3

// NeedsInput is the open question of a node.
type NeedsInput struct {
	ID   string    `json:"id"`   // of the oldest one
	Text string    `json:"text"` // its beginning, in a line
	At   time.Time `json:"at"`   // when it was asked
	Open int       `json:"open"` // how many there are
}

// Explanation says why a node is as it is.
type Explanation struct {
	Node     Node          `json:"node"`
	Rule     string        `json:"rule"`           // which decided
	Evidence []string      `json:"evidence"`       // what it was decided on, one fact each
	Next     string        `json:"next"`           // what happens next, and when
	Hint     string        `json:"hint,omitempty"` // what a person can do
	History  []event.Event `json:"history"`        // its last events, oldest first
	Tail     []string      `json:"tail"`           // its last output, sanitised
	Claims   []Claim       `json:"claims"`         // what it has said of how its work ended, oldest first
	// Patrol is not there for the root, nor for what is on its way out.
	Patrol *Standing `json:"patrol,omitempty"`
}
