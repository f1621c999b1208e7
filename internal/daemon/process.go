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

// process is a session as its supervisor sees it: one that a controller which
// keeps its agents can let go of, and that it can find guilty of living without
// doing its work.
type process struct {
	session runtime.Session
	keeps   func() bool
	grace   time.Duration
	turns   turns
	gone    chan struct{} // the session has ended and its turns are taken, or it was let go
	done    chan struct{} // the same, and its supervisor may know
	letGo   chan struct{}
	ready   time.Time // since when it is known
	unmind  func()    // ends the watch over whether it is idle; nil if there is none

	ctx     context.Context // of its turns; over when it is killed, or let go
	cancel  context.CancelCauseFunc
	resting sync.WaitGroup

	mu      sync.Mutex
	asked   bool  // to end, by its supervisor
	ended   bool  // the session has, and it is too late to rest
	verdict error // why it was condemned; nil if it was not
	holding
}

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
func newProcess(s runtime.Session, keeps func() bool, grace time.Duration, t turns) *process {
	p := &process{
		session: s, keeps: keeps, grace: grace, turns: t,
		ready: time.Now(), gone: make(chan struct{}), done: make(chan struct{}), letGo: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	go p.watch()
	return p
}

func (p *process) watch() {
	defer close(p.done)
	defer p.awaitRelease()
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
	if p.verdict != nil {
		exit = supervisor.Exit{Kind: supervisor.Failure, Err: &condemned{p.verdict, exit.Err}}
	}
	if p.asked {
		return exit
	}
	return parting(exit, p.session.Observe().Said)
}

// Stop lets it rest first, and asks it to end then; when that is is not its
// supervisor's business where everything is stopped: see depart.
func (p *process) Stop() {
	if p.heeds() {
		return
	}
	p.end(func(first bool) {
		switch {
		case p.turns.rest == nil || p.ended:
			p.session.Stop()
		case first:
			p.resting.Go(func() {
				p.turns.rest(p.ctx)
				p.session.Stop()
			})
		}
	})
}

// Kill ends it, and what is done at its turns.
func (p *process) Kill() {
	p.end(func(bool) {
		p.cancel(errKilled)
		p.session.Kill()
	})
}

// end ends it somehow, or lets it go if the controller keeps its agents. how is
// told whether it is the first to ask.
func (p *process) end(how func(first bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding.end()
	if p.keeps() {
		select {
		case <-p.letGo:
		default:
			p.cancel(errLetGo)
			close(p.letGo)
		}
		return
	}
	first := !p.asked
	p.asked = true
	how(first)
}

// leaves reports whether it has been asked to end, or was condemned.
func (p *process) leaves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked || p.verdict != nil
}

// condemn ends an incarnation that lives and does not do its work, and makes a
// failure of its end, whatever that will be: its supervisor decides what comes
// next, as after a crash. It is asked to end by sig or, if that is 0, by its own
// stop signal, and is killed when its grace period is over. condemn returns at
// once. It reports false, and does nothing, if the incarnation was condemned
// before, has been asked to end, was let go of, or has ended.
//
// If the controller is killed before the end has come, the next one sees an
// incarnation that lives, and judges it anew, or its end as it was.
func (p *process) condemn(reason error, sig syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.session.Done():
		return false
	case <-p.letGo:
		return false
	default:
	}
	if p.asked || p.verdict != nil || p.keeps() {
		return false
	}
	p.verdict = reason
	go p.execute(sig)
	return true
}

// execute is the ladder of a condemned incarnation.
func (p *process) execute(sig syscall.Signal) {
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

// condemned is the error of an incarnation that was. The text is the reason
// alone: how it then ended follows from that.
type condemned struct{ reason, exit error }

func (c *condemned) Error() string { return c.reason.Error() }
func (c *condemned) Unwrap() []error {
	if c.exit == nil {
		return []error{c.reason}
	}
	return []error{c.reason, c.exit}
}
