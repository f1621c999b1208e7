package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Supervisor is a running supervisor. All methods may be called from any
// goroutine. Only the call that starts a child waits for a slow start.
// A *Supervisor is also a Process.
type Supervisor struct {
	core      core // the loop's
	box       mailbox
	base      context.Context // for the values that children see
	origin    time.Time       // of the core's time
	depth     int
	parent    *incarnation // of a nested one, in its parent
	spec      Spec
	hook      *hook // nil: there is no hook
	ownHook   bool
	waiters   waiters
	abandoned int
	unwatch   func() bool // of the root: stops waiting for the end of its context
	ended     bool
	up        chan struct{} // closed when the initial start is complete
	done      chan struct{} // closed when it has ended; exit is set then
	exit      Exit
}

// Start starts the tree and returns when all children have been started, in
// order. If one fails to, those before it are stopped in reverse order and the
// error is a *StartError (unless Spec.StartFailure is Retry). The error of a
// faulty spec is a *SpecError, and nothing was started.
//
// When ctx ends the supervisor stops as by Stop. Children see the values of
// ctx, but not its end: they are stopped one after the other.
func Start(ctx context.Context, spec Spec) (*Supervisor, error) {
	s, err := Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	// The end of ctx ends the start too, and that is worth waiting for.
	if err := s.Started(context.WithoutCancel(ctx)); err != nil {
		if s.ownHook {
			<-s.hook.drained // its events have more detail than the error
		}
		if ctx.Err() != nil && errors.Is(err, ErrStopping) {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return s, nil
}

// Launch is Start without the wait: it returns as soon as the spec is known
// to be valid. Started returns the result of the start.
func Launch(ctx context.Context, spec Spec) (*Supervisor, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	s := newSupervisor(ctx, spec, spec.path(), 1)
	if spec.OnEvent != nil {
		s.hook, s.ownHook = newHook(spec.OnEvent), true
	}
	s.core.hooked = s.hook != nil
	s.unwatch = context.AfterFunc(ctx, s.Stop)
	go s.loop()
	return s, nil
}

// Started waits until all children have been started. If that fails, it returns
// once everything has been stopped again, with the error of Start. It returns
// ErrStopping if the supervisor was stopped, or the cause of the end of ctx.
func (s *Supervisor) Started(ctx context.Context) error {
	select {
	case <-s.up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
	}
	select {
	case <-s.up: // and has ended already
		return nil
	default:
	}
	if s.exit.Err != nil {
		return s.exit.Err
	}
	return ErrStopping
}

// newSupervisor makes a supervisor whose loop is not running.
func newSupervisor(base context.Context, spec Spec, path string, depth int) *Supervisor {
	s := &Supervisor{
		base: base, depth: depth, spec: spec, origin: time.Now(),
		box:     mailbox{wake: make(chan struct{}, 1)},
		waiters: waiters{of: make(map[*child][]*waiter)},
		up:      make(chan struct{}), done: make(chan struct{}),
	}
	s.core = core{
		retained: new(retained),
		path:     path, epoch: s.origin,
		strategy: spec.Strategy, auto: spec.AutoShutdown, together: spec.StopTogether, onStart: spec.StartFailure,
		limit: spec.limit(),
		rand:  func(d time.Duration) time.Duration { return rand.N(d + 1) },
	}
	return s
}

// Path is the path of this supervisor in its tree.
func (s *Supervisor) Path() string { return s.core.path }

// Done is closed when the supervisor and all its children have ended.
func (s *Supervisor) Done() <-chan struct{} { return s.done }

// Exit returns the exit, after Done: ShutDown after Stop or an automatic
// shutdown, Normal with WhenDone, Failure with a *LimitError or
// *AbandonedError, Killed after Kill.
func (s *Supervisor) Exit() Exit { return s.exit }

// Wait waits until the supervisor has ended and its hook has received all events.
// The error is nil after a clean exit.
func (s *Supervisor) Wait() error {
	<-s.done
	if s.ownHook {
		<-s.hook.drained
	}
	if s.exit.Clean() {
		return nil
	}
	return s.exit.Err
}

// Stop asks the supervisor to stop its children, in reverse order, each within
// its shutdown time, and to end. It returns at once.
func (s *Supervisor) Stop() { s.box.put(stopMessage{}) }

// Kill kills all children and ends the supervisor, also when a Stop is in
// progress. Goroutines that do not end are abandoned. It returns at once.
func (s *Supervisor) Kill() { s.box.put(killMessage{}) }
