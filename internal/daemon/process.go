package daemon

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/supervisor"
)

// process is a session as its supervisor sees it. A controller that keeps its agents can let go of
// it, and package health can fail it although it runs.
type process struct {
	session runtime.Session
	keeps   func() bool
	grace   time.Duration
	turns   turns
	gone    chan struct{} // the session has ended and its turns are taken, or it was let go
	done    chan struct{} // the same, and its supervisor may know
	letGo   chan struct{}
	order   stopOrder

	ctx     context.Context // of its turns; over when it is killed, or let go
	cancel  context.CancelCauseFunc
	resting sync.WaitGroup

	mu        sync.Mutex
	asked     bool          // to end, by its supervisor
	ended     bool          // the session has, and it is too late to rest
	unhealthy error         // why it was failed; nil if it was not
	since     time.Time     // it was asked in its turn, with others; zero if it was not
	took      time.Duration // from since to the end; 0 if it has not ended
	told      bool          // that it did not end in time
}

// stopOrder is when an agent that is stopped with others may end.
type stopOrder interface {
	Await(ctx context.Context) (within time.Duration, ordered bool) // see shutdown.Sequence
	Bound() time.Duration
}

// patient is a session that can be given more time to end than it has by itself.
type patient interface{ StopWithin(time.Duration) }

// turns is what is to be done at the turns of an incarnation's life. Each may be nil.
type turns struct {
	rest   func(context.Context)                  // before it is asked to stop
	failed func(context.Context, supervisor.Exit) // when it has ended as a failure
	died   func(context.Context, supervisor.Exit) // when it has ended and was not asked to
	// over is called when it has ended, last of all, with whether it was asked to.
	over func(exit supervisor.Exit, asked bool)
}

var (
	errLetGo  = errors.New("the controller ends and leaves the agent alone")
	errKilled = errors.New("the agent is killed")
)

// newProcess makes a process of a session, which may have ended already. Nobody
// is told of its end before all turns have been taken.
func newProcess(s runtime.Session, keeps func() bool, grace time.Duration, t turns, order stopOrder) *process {
	p := &process{
		session: s, keeps: keeps, grace: grace, turns: t, order: order,
		gone: make(chan struct{}), done: make(chan struct{}), letGo: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	go p.watch()
	return p
}

func (p *process) watch() {
	defer close(p.done)
	defer close(p.gone)
	defer p.cancel(nil)
	select {
	case <-p.session.Done():
	case <-p.letGo:
		return
	}
	p.mu.Lock()
	p.ended = true
	if !p.since.IsZero() {
		p.took = max(1, time.Since(p.since))
	}
	asked := p.asked
	p.mu.Unlock()
	p.resting.Wait()
	if exit := p.Exit(); p.turns.failed != nil && !exit.Clean() && !asked {
		p.turns.failed(p.ctx, exit)
	}
	if p.turns.died != nil && !asked {
		p.turns.died(p.ctx, p.Exit())
	}
	if p.turns.over != nil {
		p.turns.over(p.Exit(), asked)
	}
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Exit() supervisor.Exit {
	select {
	case <-p.session.Done():
	default:
		return supervisor.Exit{Kind: supervisor.ShutDown}
	}
	exit := p.session.Exit()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unhealthy != nil {
		exit = supervisor.Exit{Kind: supervisor.Failure, Err: &unhealthyError{p.unhealthy, exit.Err}}
	}
	if p.asked {
		return exit
	}
	return parting(exit, p.session.Observe().Said)
}

// StopTimeout implements supervisor.StopTimeouter.
func (p *process) StopTimeout() time.Duration { return p.order.Bound() }

// Gone is part of shutdown.Process.
func (p *process) Gone() <-chan struct{} { return p.gone }

// Stop waits for its turn where it is stopped with others, lets it rest, and asks it
// to end. One that has no time for that is killed.
func (p *process) Stop() {
	if p.letsGo() {
		return
	}
	within, ordered := p.order.Await(p.ctx)
	if p.letsGo() { // the controller has decided so since
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
		p.since = time.Now()
		if s, ok := p.session.(patient); ok {
			stop = func() { s.StopWithin(within) }
		}
	}
	switch {
	case ordered && within == 0:
		p.cancel(errKilled)
		p.session.Kill()
	case p.turns.rest == nil || p.ended:
		stop()
	default:
		p.resting.Go(func() {
			p.turns.rest(p.ctx)
			stop()
		})
	}
}

// Kill ends it, and what is done at its turns.
func (p *process) Kill() {
	if p.letsGo() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	p.cancel(errKilled)
	p.session.Kill()
}

// letsGo lets it go, and reports true, if the controller keeps its agents.
func (p *process) letsGo() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.keeps() {
		return false
	}
	if !isClosed(p.letGo) {
		p.cancel(errLetGo)
		close(p.letGo)
	}
	return true
}

// Overdue is part of shutdown.Process.
func (p *process) Overdue(allowed time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || p.told {
		return 0
	}
	took := p.took
	if took == 0 {
		took = time.Since(p.since)
	}
	if took < allowed {
		return 0
	}
	p.told = true
	return took
}

// Session is part of health.Agent.
func (p *process) Session() runtime.Session { return p.session }

// Context is part of health.Agent.
func (p *process) Context() context.Context { return p.ctx }

// Leaving reports whether it has been asked to end, or was failed.
func (p *process) Leaving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked || p.unhealthy != nil
}

// Fail ends an unhealthy incarnation and turns its exit, however it ends, into a failure: its
// supervisor decides what comes next, as after a crash. It sends sig or, if that is 0, the agent's
// stop signal, and SIGKILL after the grace period. It returns at once. It reports false, and does
// nothing, if the incarnation was failed before, has been asked to end, was let go of, or has ended.
//
// If the daemon is killed before the incarnation has ended, the next daemon finds it running and
// checks its health again, or finds its exit as it was.
func (p *process) Fail(reason error, sig syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.session.Done():
		return false
	case <-p.letGo:
		return false
	default:
	}
	if p.asked || p.unhealthy != nil || p.keeps() {
		return false
	}
	p.unhealthy = reason
	go p.terminate(sig)
	return true
}

// terminate ends an incarnation that was failed: a signal, then SIGKILL after the grace period.
func (p *process) terminate(sig syscall.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), p.grace)
	defer cancel()
	if sig == 0 {
		p.session.Stop()
	} else {
		// What does not run at the moment is continued, so that it can obey. An
		// error leaves it to the SIGKILL, which is repeated until it has arrived.
		p.session.Signal(ctx, sig)
		p.session.Signal(ctx, syscall.SIGCONT)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.session.Kill()
	}
}

// unhealthyError is the error of an incarnation that was failed. The text is the reason alone: how it
// then ended follows from that.
type unhealthyError struct{ reason, exit error }

func (e *unhealthyError) Error() string { return e.reason.Error() }
func (e *unhealthyError) Unwrap() []error {
	if e.exit == nil {
		return []error{e.reason}
	}
	return []error{e.reason, e.exit}
}
