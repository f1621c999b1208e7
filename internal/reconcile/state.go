package reconcile

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Desired is the desired state of an agent, or of a supervisor.
type Desired struct {
	Path string
	// Needs are the paths that must be ready before it starts.
	Needs []string
	// After is the sibling that its supervisor starts before it, and that must have settled;
	// "" if there is none, or the siblings are in no order.
	After string
	// Suspended: it is declared, but must not run.
	Suspended bool
	// Retired: it is no longer in the file, and may finish. It is adopted if it runs, and
	// nothing else: the feature that has retired it stops it.
	Retired bool
	// Instance: it belongs to a pool. The same name elsewhere is another agent.
	Instance bool
	Hash     spec.Hash // of its declaration; a supervisor has none
	// DrainTimeout is the time that it has to finish before a restart for drift;
	// 0: it is restarted at once.
	DrainTimeout time.Duration
}

// Phase is the observed state of a node.
type Phase uint8

const (
	// Unknown: its state is not known, which is never a reason for an action.
	Unknown Phase = iota
	// Pending: it does not run, and only the reconciler starts it.
	Pending
	// Running: it runs and is ready.
	Running
	// Managed: its supervisor starts or stops it, waits for its restart, or its limit holds it.
	Managed
	// Completed: it does not run and must not: a person has stopped it, or it has exited and
	// its restart policy does not restart it.
	Completed
)

func (l Phase) String() string {
	return [...]string{"unknown", "down", "running", "kept", "done"}[l]
}

// Observed is the observed state of a node, desired or not.
type Observed struct {
	Path  string
	Phase Phase
	Ready bool // nodes that need it may start: it runs, or has completed its work
	// Settled: the sibling after it may start: it is ready, or must not run.
	Settled bool
	// Orphan: it runs in a slot of the project, and no supervisor knows it.
	Orphan bool
	// Adoptable: it is Pending for its supervisor only. It was found running, and
	// starting it adopts it.
	Adoptable bool

	// Held: it does not run, because its restart is delayed or its limit is reached.
	Held bool

	// Of an agent that runs or is held.
	Incarnation uint64
	Hash        spec.Hash // of its last start; unknown if it has no fields
	// Of a running agent.
	Requested bool   // it has asked to be restarted
	Request   string // why
	// Idle is the time since its last input or output if that exceeds its idle timeout; else 0.
	Idle     time.Duration
	Moves    string // to which node it has to move, and why; empty if it stays
	Asks     bool   // it checks whether it is being drained
	Draining bool   // it was asked to finish, and what follows is decided
	// RoomAt is the time at which its limit allows another start; now if it is in the past.
	RoomAt time.Time
}

// InFlight has the actions of earlier passes that are in progress.
type InFlight struct {
	// Busy has the paths of actions in progress, except starts. Nothing is planned for these,
	// nor above or below them.
	Busy map[string]bool
	// Starting has the paths of starts in progress. Only their end is planned, which waits
	// for no start.
	Starting map[string]bool
	// Before has, by path of a removed node, the nodes that depended on it and must be gone
	// first.
	Before map[string][]string
}

// Kind is the kind of an action.
type Kind uint8

const (
	Stop    Kind = iota // what is not desired: at once, and with all in it
	Suspend             // what is declared, but must not run
	Start
	Renew   // stop and start again
	Drain   // ask it to finish, then renew it
	End     // end it as a failure: its supervisor and its limit decide what follows
	Release // start what is held, with fresh counters
)

func (k Kind) String() string {
	return [...]string{"stop", "suspend", "start", "renew", "drain", "end", "release"}[k]
}

// Cause is the reason to restart or end a running agent. The first that applies counts.
type Cause uint8

const (
	NoCause Cause = iota
	Requested
	Idle
	Drifted
	Moved // to another node
)

func (c Cause) String() string {
	return [...]string{"", "restart requested", "idle", "drifted", "moved"}[c]
}

// Action is one action of a plan.
type Action struct {
	Kind Kind
	Path string
	// Incarnation is the one to renew, drain or end. Its successor is left alone.
	Incarnation uint64
	Cause       Cause         // of Renew, Drain, End and Release
	Fields      []string      // that have drifted
	Within      time.Duration // of Drain
	// Counted: the start counts for the limit of the agent, because the agent can cause it
	// again and again: by a request, or by writing the files that it reads.
	Counted bool
	Adopt   bool   // of Start: adopt the running incarnation
	Reason  string // for people
}

func (a Action) String() string { return fmt.Sprintf("%v %s: %s", a.Kind, a.Path, a.Reason) }

// Delay is an action that waits.
type Delay struct {
	Path string
	// For is the path that it waits for; "" if it waits for its limit, until Until.
	For   string
	Until time.Time
	Cause Cause // of a renewal that a limit delays
}

func (d Delay) String() string {
	if d.For != "" {
		return fmt.Sprintf("%s waits for %s", d.Path, d.For)
	}
	return fmt.Sprintf("%s (%v) was started too often and goes on as it is until %s", d.Path, d.Cause,
		d.Until.Format(time.DateTime))
}

// Result is a plan.
type Result struct {
	// Actions are first those on nodes that are not desired, then the others in start order.
	// All of them can be carried out at the same time.
	Actions []Action
	// Delays are the actions that wait, in start order.
	Delays []Delay
	// Next is the time at which there may be more to do although nothing happens; zero if never.
	Next time.Time
}
