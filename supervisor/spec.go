package supervisor

import (
	"context"
	"time"
)

// Strategy says which children are restarted when one of them fails.
// (OTP supervisor, "Restart strategy"; the Sage seed, "Restart Strategies".)
type Strategy uint8

const (
	// OneForOne restarts the failed child alone. The default.
	OneForOne Strategy = iota
	// OneForAll stops all children in reverse order and starts all of them again, in order.
	OneForAll
	// RestForOne does the same for the failed child and those listed after it.
	RestForOne
	// SimpleOneForOne is a pool: one template in Spec.Children, instances
	// added by StartInstance, each restarted alone, all stopped at once.
	SimpleOneForOne
)

// Restart says which exits of a child lead to a restart.
type Restart uint8

const (
	// Permanent children are always restarted, also after a clean exit. The default.
	Permanent Restart = iota
	// Transient children are restarted unless they ended cleanly (Normal or ShutDown).
	Transient
	// Temporary children are never restarted, and forgotten once they ended.
	Temporary
)

// AutoShutdown says when a supervisor ends by itself (OTP 24).
type AutoShutdown uint8

const (
	// NeverShutdown keeps the supervisor until it is stopped or reaches its limit. The default.
	NeverShutdown AutoShutdown = iota
	// AnySignificant ends it when any significant child has ended by itself for good.
	AnySignificant
	// AllSignificant ends it when the last significant child has ended by itself for good.
	AllSignificant
	// WhenDone ends it when no child, at any depth, runs or will run again:
	// the Sage seed's "all children have exited (and none need restarting)".
	WhenDone
)

// ChildType only affects the default of Shutdown and the columns of Counts.
type ChildType uint8

const (
	Worker ChildType = iota
	SupervisorType
)

// StartFailure says what a failed start of a child means while its supervisor itself is starting.
type StartFailure uint8

const (
	// Rollback stops what has been started, in reverse order, and fails the
	// start of the supervisor. OTP's rule and the default.
	Rollback StartFailure = iota
	// Retry treats it as a failed restart: counted, delayed by the backoff,
	// tried again, while the supervisor goes on starting. For fleets, where
	// one agent that is not ready yet must not take the others down.
	Retry
)

// Abandon says what happens after a child did not end within its shutdown
// time and could not be killed. A goroutine never can.
type Abandon uint8

const (
	// Proceed lets the successor start beside the abandoned incarnation,
	// which is reported by a ChildAbandoned event and counted. The default.
	Proceed Abandon = iota
	// Fail ends the supervisor as a failure with an AbandonedError, so that
	// it never runs two incarnations side by side. Whether its parent starts
	// it again is the parent's policy.
	Fail
)

// Values of ChildSpec.Shutdown other than a time.
const (
	// BrutalKill kills at once, without asking first. A goroutine's context
	// is cancelled and the goroutine is abandoned unless it ends right away.
	BrutalKill time.Duration = -1
	// Infinity waits for ever after asking. The default for supervisors.
	Infinity time.Duration = -2
)

// Defaults and bounds.
const (
	DefaultMaxRestarts = 5                // restarts
	DefaultWithin      = 60 * time.Second // the window they are counted in
	DefaultShutdown    = 5 * time.Second  // ChildSpec.Shutdown of a worker (OTP)
	MaxDepth           = 8                // levels of nested supervisors (the Sage seed)
)

// Spec describes a supervisor. The zero value is a one_for_one supervisor
// without children that tolerates 5 restarts in 60 s.
type Spec struct {
	// Name is the first segment of all paths; "root" if empty. A nested
	// supervisor is named by the ID of its ChildSpec instead.
	Name string

	Strategy Strategy

	// Limit says when to stop restarting; the zero value is Escalating(5, 60 s).
	Limit Limit

	AutoShutdown AutoShutdown

	StartFailure StartFailure

	// StopTogether: when the supervisor ends, all of its children are asked to
	// stop at the same time, not one after the other in reverse order. Group
	// restarts go by that order all the same. (OTP has this for simple_one_for_one.)
	StopTogether bool

	// Children are started in this order and stopped in the reverse one.
	// SimpleOneForOne takes exactly one, as the template of its instances.
	Children []ChildSpec

	// Saved, if not nil, is what Save returned of an earlier life.
	Saved *SavedSelf

	// OnEvent is called for each event, in order, from one goroutine of its
	// own, so that a slow hook never blocks a supervisor. Nested supervisors
	// without a hook use their parent's. When more than MaxQueuedEvents wait
	// for a hook, the newest are dropped and an EventsLost event says how many.
	OnEvent func(Event)
}

// ChildSpec describes a child. ID and exactly one of Run, Start and
// Supervisor are mandatory; the rest has OTP's defaults.
type ChildSpec struct {
	// ID is unique in its supervisor, not empty and without "/".
	ID string

	// Run is a child that lives in a goroutine. It ends by returning: nil
	// is a normal exit, ErrShutdown (or an error that wraps it) a clean one,
	// any other error, a panic and runtime.Goexit are failures. It must
	// return soon after ctx is done. The context tells who it is (Self).
	// ErrIgnore returned instead of readiness means "not needed now".
	Run func(ctx context.Context) error

	// Start is a child with a life of its own, such as an OS process. It may
	// block until the child is ready, is called in a goroutine of its own, and
	// must give up when ctx is done. ErrIgnore means "not needed now". As ctx
	// ends when the child is asked to stop, the process must not depend on it
	// (as with exec.CommandContext), or it is killed instead of stopped.
	Start func(ctx context.Context) (Process, error)

	// Supervisor is a nested supervisor; it counts as started when all its
	// children are.
	Supervisor *Spec

	Restart Restart

	// Shutdown is the time between being asked to stop and being killed:
	// DefaultShutdown for workers and Infinity for supervisors if zero.
	Shutdown time.Duration

	// Significant children take part in the AutoShutdown of the supervisor.
	// They must not be permanent.
	Significant bool

	// Type is SupervisorType if Supervisor is set.
	Type ChildType

	// WaitReady makes a Run child count as started when it calls Ready, not
	// when its goroutine exists. Its siblings wait for that.
	WaitReady bool

	// StartTimeout bounds Start, or the wait for Ready. When it is over, the
	// child is stopped and its start has failed with ErrStartTimeout. Zero: no bound.
	StartTimeout time.Duration

	// Backoff is the delay before restarts; the zero value is none, as in OTP.
	Backoff Backoff

	// Limit is the child's own limit. Its restarts then count here and not
	// in the supervisor. The zero value leaves the child to Spec.Limit.
	Limit Limit

	// OnAbandon says whether a successor may run beside an incarnation that would not stop.
	OnAbandon Abandon

	// ManualStart children of a Spec are listed as Waiting with ReasonDeferred, and
	// not started with their supervisor, nor by Update. EnsureChild starts them, in
	// any order and many at a time. That is so again when their group is restarted,
	// except for the one that has failed, unless another one comes before it.
	ManualStart bool

	// Saved, if not nil, is what Save returned of an earlier life of the tree.
	// It is for the children of a Spec, and new ones of an Update; StartChild
	// only goes on from its Incarnation. When a nested supervisor is restarted,
	// it is out of date for the children that it had, and ignored: they keep
	// their numbers, stay down where they have been suspended, and go on with what
	// a limit of their own that quarantines or gives up has counted, unless
	// RestartChild starts it. A number never goes back, not by DeleteChild, either.
	Saved *Saved
}

// Process is the life of a child that is not a goroutine: an OS process, a
// session, a connection. The supervisor calls Stop and Kill from goroutines
// of their own, each at most once, in this order and possibly after the end.
type Process interface {
	// Done is closed when the process has ended.
	Done() <-chan struct{}
	// Exit says how it ended. It is called only after Done is closed.
	Exit() Exit
	// Stop asks it to end.
	Stop()
	// Kill makes it end. A process that survives Kill for KillGrace is abandoned.
	Kill()
}

// StopTimeouter is a Process that knows better than ChildSpec.Shutdown how long it may
// take to end.
type StopTimeouter interface {
	// StopTimeout is asked when the process is, before its Stop is called: from
	// then until Kill, or Infinity. Zero: ChildSpec.Shutdown holds.
	StopTimeout() time.Duration
}

// KillGrace is how long a process may take to end after Kill before it is abandoned.
const KillGrace = 10 * time.Second

// withDefaults fills in what the zero values stand for.
func (c ChildSpec) withDefaults() ChildSpec {
	if c.Supervisor != nil {
		c.Type = SupervisorType
	}
	if c.Shutdown == 0 {
		c.Shutdown = DefaultShutdown
		if c.Type == SupervisorType {
			c.Shutdown = Infinity
		}
	}
	return c
}
