package supervisor

import (
	"context"
	"time"
)

// Strategy selects the children that restart when one of them fails.
// (OTP supervisor, "Restart strategy".)
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

// Restart selects the exits of a child that lead to a restart.
type Restart uint8

const (
	// Permanent children are always restarted, also after a clean exit. The default.
	Permanent Restart = iota
	// Transient children are restarted unless they ended cleanly (Normal or ShutDown).
	Transient
	// Temporary children are never restarted, and are forgotten once they have ended.
	Temporary
)

// AutoShutdown is the condition under which a supervisor ends on its own (OTP 24).
type AutoShutdown uint8

const (
	// NeverShutdown keeps the supervisor until it is stopped or reaches its limit. The default.
	NeverShutdown AutoShutdown = iota
	// AnySignificant ends it when any significant child has ended on its own for good.
	AnySignificant
	// AllSignificant ends it when the last significant child has ended on its own for good.
	AllSignificant
	// WhenDone ends it when no child, at any depth, runs or will run again.
	WhenDone
)

// ChildType only affects the default of Shutdown and the columns of Counts.
type ChildType uint8

const (
	Worker ChildType = iota
	SupervisorType
)

// StartFailure is the reaction to the failed start of a child while its supervisor is starting.
type StartFailure uint8

const (
	// Rollback stops what has been started, in reverse order, and fails the
	// start of the supervisor. OTP's rule and the default.
	Rollback StartFailure = iota
	// Retry treats it as a failed restart: counted, delayed by the backoff,
	// tried again, while the supervisor continues to start. It is for fleets, where
	// one agent that is not ready must not take the others down.
	Retry
)

// Abandon is the reaction to a child that did not end within its shutdown
// time and could not be killed. A goroutine cannot be killed.
type Abandon uint8

const (
	// Proceed lets the successor start next to the abandoned incarnation,
	// which is reported by a ChildAbandoned event and counted. The default.
	Proceed Abandon = iota
	// Fail ends the supervisor as a failure with an AbandonedError, so that
	// two incarnations never run side by side. Its parent applies its own
	// restart policy.
	Fail
)

// Values of ChildSpec.Shutdown other than a time.
const (
	// BrutalKill kills at once, without asking first. A goroutine's context
	// is cancelled and the goroutine is abandoned unless it ends right away.
	BrutalKill time.Duration = -1
	// Infinity waits without limit. The default for supervisors.
	Infinity time.Duration = -2
)

// Defaults and bounds.
const (
	DefaultMaxRestarts = 5                // restarts
	DefaultWithin      = 60 * time.Second // the window in which they are counted
	DefaultShutdown    = 5 * time.Second  // ChildSpec.Shutdown of a worker (OTP)
	MaxDepth           = 8                // levels of nested supervisors
)

// Spec describes a supervisor. The zero value is a one_for_one supervisor
// without children that tolerates 5 restarts in 60 s.
type Spec struct {
	// Name is the first segment of all paths; "root" if empty. A nested
	// supervisor is named by the ID of its ChildSpec instead.
	Name string

	Strategy Strategy

	// Limit bounds the restarts; the zero value is Escalating(5, 60 s).
	Limit Limit

	AutoShutdown AutoShutdown

	StartFailure StartFailure

	// StopTogether stops all children at the same time when the supervisor ends,
	// instead of one after the other in reverse order. Group restarts keep
	// that order. (OTP has this for simple_one_for_one.)
	StopTogether bool

	// Children are started in this order and stopped in the reverse one.
	// SimpleOneForOne takes exactly one, as the template of its instances.
	Children []ChildSpec

	// Saved, if not nil, is the state that Save returned in an earlier run.
	Saved *SavedSelf

	// OnEvent is called for each event, in order, from a goroutine of its own: a
	// slow hook never blocks a supervisor. Nested supervisors without a hook
	// use their parent's. When more than MaxQueuedEvents wait for a hook, the
	// newest are dropped and an EventsLost event reports their number.
	OnEvent func(Event)
}

// ChildSpec describes a child. ID and exactly one of Run, Start and
// Supervisor are mandatory; the rest has OTP's defaults.
type ChildSpec struct {
	// ID is unique in its supervisor, not empty and without "/".
	ID string

	// Run is a child that runs in a goroutine. It ends by returning: nil
	// is a normal exit, ErrShutdown (or an error that wraps it) a clean one,
	// any other error, a panic and runtime.Goexit are failures. It must
	// return soon after ctx is done. SelfOf(ctx) returns its identity.
	// ErrIgnore returned instead of readiness means "not needed now".
	Run func(ctx context.Context) error

	// Start starts a child that is not a goroutine, such as an OS process. It may
	// block until the child is ready, is called in a goroutine of its own, and
	// must give up when ctx is done. ErrIgnore means "not needed now". ctx ends
	// when the child is asked to stop, so a process that depends on it
	// (exec.CommandContext) would be killed instead of stopped.
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

	// WaitReady makes a Run child count as started when it calls Ready, instead of
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

	// OnAbandon controls whether a successor may run next to an incarnation that did not stop.
	OnAbandon Abandon

	// ManualStart children of a Spec are listed as Waiting with ReasonDeferred, and
	// not started with their supervisor, nor by Update. EnsureChild starts them, in
	// any order and concurrently. The same holds when their group is restarted,
	// except for the child that has failed, unless another one comes before it.
	ManualStart bool

	// Saved, if not nil, is the state that Save returned in an earlier run of the tree.
	// It is for the children of a Spec, and new ones of an Update; StartChild
	// uses only its Incarnation. When a nested supervisor is restarted, Saved is out of
	// date for the children that it had, and ignored. They keep their numbers and stay
	// down where they were suspended. They keep the counts of a limit of their own that
	// quarantines or gives up, unless RestartChild starts the supervisor.
	// Incarnation numbers never decrease, even after DeleteChild.
	Saved *Saved
}

// Process is a running child that is not a goroutine: an OS process, a
// session, a connection. The supervisor calls Wait once, from the goroutine
// that called ChildSpec.Start. It calls Stop and Kill from goroutines of their
// own, each at most once, in this order and possibly after the end.
type Process interface {
	// Wait waits until the process has ended, and returns its exit.
	Wait() Exit
	// Stop asks it to end.
	Stop()
	// Kill makes it end. A process that survives Kill for KillGrace is abandoned.
	Kill()
}

// StopTimeouter is a Process with a shutdown time of its own.
type StopTimeouter interface {
	// StopTimeout returns the time between Stop and Kill, or Infinity. It is called right
	// before Stop. Zero means ChildSpec.Shutdown.
	StopTimeout() time.Duration
}

// KillGrace is the time after Kill in which a process must end, or it is abandoned.
const KillGrace = 10 * time.Second

// withDefaults replaces zero values by the defaults.
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
