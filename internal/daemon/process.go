package daemon

import (
	"context"
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
	done    chan struct{} // the session has ended, or was let go
	letGo   chan struct{}
	once    sync.Once

	mu      sync.Mutex
	asked   bool  // to end, by its supervisor
	verdict error // why it was condemned; nil if it was not
}

// newProcess calls over before anybody is told of the end.
func newProcess(s runtime.Session, keeps func() bool, grace time.Duration, over func()) *process {
	p := &process{session: s, keeps: keeps, grace: grace, done: make(chan struct{}), letGo: make(chan struct{})}
	go func() {
		select {
		case <-s.Done():
			over()
		case <-p.letGo:
		}
		close(p.done)
	}()
	return p
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
		return supervisor.Exit{Kind: supervisor.Failure, Err: &condemned{p.verdict, exit.Err}}
	}
	return exit
}

func (p *process) Stop() { p.end(p.session.Stop) }
func (p *process) Kill() { p.end(p.session.Kill) }

func (p *process) end(how func()) {
	if p.keeps() {
		p.once.Do(func() { close(p.letGo) })
		return
	}
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	how()
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
	case <-p.done:
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
