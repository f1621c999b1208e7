package agent

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// Process is a session as its supervisor sees it. A daemon that leaves its agents running can detach
// from it, and package health can fail it while it runs.
type Process struct {
	session  runtime.Session
	detaches func() bool // whether the daemon leaves the agent running now
	grace    time.Duration
	hooks    lifecycleHooks
	order    stopOrder
	env      Env           // of the incarnation
	finished chan struct{} // closed when the session has ended and its hooks have run, or on detaching
	detached chan struct{}

	ctx      context.Context // of the hooks; canceled when the incarnation is killed, or on detaching
	cancel   context.CancelCauseFunc
	stopping sync.WaitGroup // the beforeStop hook

	mu            sync.Mutex
	asked         bool          // to stop, by its supervisor
	ended         bool          // the session has, and it is too late for beforeStop
	unhealthy     error         // why it was failed; nil if it was not
	since         time.Time     // when it was asked in an ordered stop; zero if it was not
	pid           int           // its process then
	took          time.Duration // from since to the end; 0 while it runs
	loggedOverdue bool
}

// stopOrder decides when an agent that is stopped with others may begin to stop.
type stopOrder interface {
	Await(ctx context.Context) (within time.Duration, ordered bool) // see shutdown.Sequence
	Bound() time.Duration
}

// stopWithiner is a session that can be given another grace period than its own.
type stopWithiner interface{ StopWithin(time.Duration) }

// lifecycleHooks are callbacks at points of an incarnation's lifecycle. Any may be nil.
type lifecycleHooks struct {
	beforeStop func(context.Context)                  // before it is asked to stop
	classify   func(End) supervisor.Exit              // before the others that follow the end
	failed     func(context.Context, supervisor.Exit) // after a failure
	died       func(context.Context, supervisor.Exit) // after an exit that was not asked for
	// ended is called last, with whether the incarnation was asked to stop.
	ended func(exit supervisor.Exit, asked bool)
}

var (
	errDetached = errors.New("the daemon ends and leaves the agent running")
	errKilled   = errors.New("the agent is killed")
)

// newProcess makes a process of a session, which may have ended already.
func newProcess(
	s runtime.Session, detaches func() bool, grace time.Duration, hooks lifecycleHooks, order stopOrder,
) *Process {
	p := &Process{
		session: s, detaches: detaches, grace: grace, hooks: hooks, order: order,
		finished: make(chan struct{}), detached: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// Wait is part of supervisor.Process. It waits for the end of the session and runs the hooks.
func (p *Process) Wait() supervisor.Exit {
	defer close(p.finished)
	defer p.cancel(nil)
	select {
	case <-p.session.Done():
	case <-p.detached:
		return supervisor.Exit{Kind: supervisor.ShutDown}
	}
	return p.conclude()
}

// conclude runs the hooks after the end of the session. It is apart from Wait because that needs a
// smaller stack for as long as the agent runs.
func (p *Process) conclude() supervisor.Exit {
	p.mu.Lock()
	p.ended = true
	if !p.since.IsZero() {
		p.took = max(1, time.Since(p.since))
	}
	asked := p.asked
	p.mu.Unlock()
	p.stopping.Wait()
	exit := p.exit(asked)
	if p.hooks.classify != nil {
		end := p.end()
		end.Exit, end.Asked = exit, asked
		exit = p.hooks.classify(end)
	}
	if p.hooks.failed != nil && hasFailed(exit) && !asked {
		p.hooks.failed(p.ctx, exit)
	}
	if p.hooks.died != nil && !asked {
		p.hooks.died(p.ctx, exit)
	}
	if p.hooks.ended != nil {
		p.hooks.ended(exit, asked)
	}
	return exit
}

// hasFailed reports whether an incarnation has failed. One that waits for something outside of it has not.
func hasFailed(exit supervisor.Exit) bool {
	_, waits := errors.AsType[*supervisor.RetryError](exit.Err)
	return !waits && !exit.Clean()
}

// exit returns the exit of an incarnation whose session has ended, and that was asked to stop before
// or was not.
func (p *Process) exit(asked bool) supervisor.Exit {
	exit := p.session.Exit()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unhealthy != nil {
		exit = supervisor.Exit{Kind: supervisor.Failure, Err: &UnhealthyError{p.unhealthy, exit.Err}}
	}
	if asked {
		return exit
	}
	return AnnotateExit(exit, p.session.Observe().Said)
}

// StopTimeout implements supervisor.StopTimeouter.
func (p *Process) StopTimeout() time.Duration { return p.order.Bound() }

// Gone is part of shutdown.Process.
func (p *Process) Gone() <-chan struct{} { return p.finished }

// Stop waits for its turn in an ordered stop, runs the beforeStop hook, and asks the incarnation to
// end. It kills an incarnation that has no time left.
func (p *Process) Stop() {
	if p.detach() {
		return
	}
	within, ordered := p.order.Await(p.ctx)
	if p.detach() { // the daemon has decided so since
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked || p.ctx.Err() != nil {
		return // killed meanwhile, or it has ended
	}
	p.asked = true
	stop := p.session.Stop
	if ordered {
		p.since, p.pid = time.Now(), p.session.Observe().PID
		if s, ok := p.session.(stopWithiner); ok {
			stop = func() { s.StopWithin(within) }
		}
	}
	switch {
	case ordered && within == 0:
		p.cancel(errKilled)
		p.session.Kill()
	case p.hooks.beforeStop == nil || p.ended:
		stop()
	default:
		p.stopping.Go(func() {
			p.hooks.beforeStop(p.ctx)
			stop()
		})
	}
}

// Kill ends the incarnation and its hooks.
func (p *Process) Kill() {
	if p.detach() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	p.cancel(errKilled)
	p.session.Kill()
}

// detach detaches from the incarnation, and reports true, if the daemon leaves it running.
func (p *Process) detach() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.detaches() {
		return false
	}
	if !isClosed(p.detached) {
		p.cancel(errDetached)
		close(p.detached)
	}
	return true
}

// Overdue is part of shutdown.Process.
func (p *Process) Overdue(allowed time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || p.loggedOverdue {
		return 0
	}
	took := p.took
	if took == 0 {
		took = time.Since(p.since)
	}
	if took < allowed {
		return 0
	}
	p.loggedOverdue = true
	return took
}

// pidWhenAsked returns the PID that it had when it was asked to end in an ordered stop.
func (p *Process) pidWhenAsked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Session is part of health.Agent.
func (p *Process) Session() runtime.Session { return p.session }

// Context is part of health.Agent.
func (p *Process) Context() context.Context { return p.ctx }

// Environ returns the environment of the incarnation.
func (p *Process) Environ() Env { return p.env }

// end returns what is known of the end of the incarnation, without its exit.
func (p *Process) end() End {
	o := p.session.Observe()
	e := End{Began: o.StartedAt, At: o.ExitedAt}
	if o.Token != "" {
		e.Life = token.ID(o.Token)
	}
	return e
}

// Detached reports whether the daemon has left the incarnation running. Its exit says nothing then.
func (p *Process) Detached() bool { return isClosed(p.detached) }

// Leaving reports whether the incarnation has been asked to stop, or was failed.
func (p *Process) Leaving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked || p.unhealthy != nil
}

// Fail ends an unhealthy incarnation and turns its exit, however it ends, into a failure: its
// supervisor decides what comes next, as after a crash. It sends sig or, if that is 0, the agent's
// stop signal, and SIGKILL after the grace period. It returns at once. It reports false, and does
// nothing, if the incarnation was failed before, has been asked to stop, was detached from, or has
// ended.
//
// If the daemon is killed before the incarnation has ended, the next daemon finds it running and
// checks its health again, or finds its exit as it was.
func (p *Process) Fail(reason error, sig syscall.Signal) bool {
	return p.fail(reason, func() { p.terminate(sig) })
}

// Abort is Fail with SIGKILL, for all of the incarnation and at once.
func (p *Process) Abort(reason error) bool { return p.fail(reason, p.session.Kill) }

func (p *Process) fail(reason error, end func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.session.Done()) || isClosed(p.detached) || p.asked || p.unhealthy != nil || p.detaches() {
		return false
	}
	p.unhealthy = reason
	go end()
	return true
}

// terminate ends an incarnation that was failed: a signal, then SIGKILL after the grace period.
func (p *Process) terminate(sig syscall.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), p.grace)
	defer cancel()
	if sig == 0 {
		p.session.Stop()
	} else {
		// A stopped process is continued, so that it can handle the signal. An error is left to
		// the SIGKILL, which is repeated until it has arrived.
		p.session.Signal(ctx, sig)
		p.session.Signal(ctx, syscall.SIGCONT)
	}
	select {
	case <-p.finished:
	case <-ctx.Done():
		p.session.Kill()
	}
}

// lostProcess is an incarnation of which nothing is left. It runs the hooks of its end.
type lostProcess struct {
	hooks  *hookRunner
	ctx    context.Context // of the hooks
	cancel context.CancelCauseFunc
}

// ErrLost is the error of an incarnation whose slot is gone: not even its exit is known.
var ErrLost = errors.New("lost: nothing is left of it, not even how it ended")

// LostExit returns the exit of an incarnation whose slot is gone.
func LostExit() supervisor.Exit { return supervisor.Exit{Kind: supervisor.Lost, Err: ErrLost} }

func newLostProcess(h *hookRunner) lostProcess {
	ctx, cancel := context.WithCancelCause(context.Background())
	return lostProcess{h, ctx, cancel}
}

func (p lostProcess) Wait() supervisor.Exit {
	defer p.cancel(nil)
	exit := p.hooks.classify(End{Exit: LostExit()})
	if hasFailed(exit) {
		p.hooks.failed(p.ctx, exit)
	}
	p.hooks.died(p.ctx, exit)
	p.hooks.ended(exit, false)
	return exit
}

func (lostProcess) Stop()   {}
func (p lostProcess) Kill() { p.cancel(errKilled) }
