package supervisor

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// incarnation is one run of a child. It implements the child's context itself,
// because there may be very many: that costs less than half as much as
// context.WithCancel and its registrations. It is also the message that
// reports its own end to the supervisor: an exit allocates nothing and
// cannot be lost.
type incarnation struct {
	s    *Supervisor
	c    *child
	n    uint64
	err  error // with kind: the exit, set by the goroutine before it sends the incarnation
	more *incarnationMore

	mu      sync.Mutex // guards done, after, ended and readied
	done    chan struct{}
	after   *afterFunc
	ended   bool // the context is done
	readied bool // Ready was called

	withArg bool // more.arg is set, from the start
	kind    ExitKind
	asked   bool // to stop; used by the loop only
	cut     bool // abandoned; used by the loop only
}

func (i *incarnation) exit() Exit     { return Exit{i.kind, i.err} }
func (i *incarnation) setExit(e Exit) { i.kind, i.err = e.Kind, e.Err }

// incarnationMore has the fields that only some incarnations need. Only the loop
// uses them, except for arg.
type incarnationMore struct {
	arg    any           // of an instance
	proc   stopper       // a Process or a *Supervisor, once there is one
	timer  *time.Timer   // of a start or a stop
	since  time.Duration // time of the stop request; 0 if there is none
	killed bool
	idle   bool // reported by a nested supervisor, possibly before its start was
}

// stopper is what the supervisor's loop does with a process.
type stopper interface {
	Stop()
	Kill()
}

func (i *incarnation) ext() *incarnationMore {
	if i.more == nil {
		i.more = new(incarnationMore)
	}
	return i.more
}

func (i *incarnation) stopTimer() {
	if i.more != nil && i.more.timer != nil {
		i.more.timer.Stop()
		i.more.timer = nil
	}
}

// afterFunc is a list of functions to call when the context is done.
type afterFunc struct {
	f    func()
	next *afterFunc
}

func (i *incarnation) message() {}

// Deadline is part of context.Context: there is none.
func (i *incarnation) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the child is asked to stop.
func (i *incarnation) Done() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done == nil {
		i.done = make(chan struct{})
		if i.ended {
			close(i.done)
		}
	}
	return i.done
}

// Err is context.Canceled once the child is asked to stop.
func (i *incarnation) Err() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return context.Canceled
	}
	return nil
}

// Value looks up in the context that the tree was started with.
func (i *incarnation) Value(key any) any {
	if key == (selfKey{}) {
		return i
	}
	return i.s.base.Value(key)
}

func (i *incarnation) String() string { return i.s.core.path + "/" + i.c.id }

// AfterFunc lets the context package derive contexts without a goroutine for each.
func (i *incarnation) AfterFunc(f func()) (stop func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		go f()
		return func() bool { return false }
	}
	mine := &afterFunc{f, i.after}
	i.after = mine
	return func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		for at := &i.after; *at != nil; at = &(*at).next {
			if *at == mine {
				*at = mine.next
				return true
			}
		}
		return false
	}
}

// cancel ends the context.
func (i *incarnation) cancel() {
	i.mu.Lock()
	if i.ended {
		i.mu.Unlock()
		return
	}
	i.ended = true
	if i.done != nil {
		close(i.done)
	}
	after := i.after
	i.after = nil
	i.mu.Unlock()
	for ; after != nil; after = after.next {
		go after.f()
	}
}

// launch starts the goroutine of the incarnation.
func (i *incarnation) launch() {
	s, c := i.s, i.c
	if c.more != nil && c.more.arg != nil {
		i.withArg = true
		i.ext().arg = c.more.arg
	}
	switch work := c.work.(type) {
	case run:
		go i.live(work)
	case start:
		go i.watch(work)
	case *Spec:
		sub := newSupervisor(s.base, *work, i.String(), s.depth+1)
		sub.parent, sub.hook = i, s.hook
		sub.core.retained, sub.core.nested = s.core.retained, true
		if work.OnEvent != nil {
			sub.hook, sub.ownHook = newHook(work.OnEvent), true
		}
		sub.core.hooked = sub.hook != nil
		i.ext().proc = sub
		go i.nest(sub)
	}
	if d := c.policy.startTimeout; d > 0 {
		i.ext().timer = time.AfterFunc(d, func() { s.box.put(&startTimeout{i}) })
	}
}

// live is the goroutine of a Run child.
func (i *incarnation) live(run func(context.Context) error) {
	defer i.finish()
	i.kind = Panicked // stands unless run and classify return
	i.setExit(i.classify(run(i)))
}

// classify classifies the result of a function of the child. A child that returns
// because its context is done has shut down as requested.
func (i *incarnation) classify(err error) Exit {
	e := exitOf(err)
	if e.Kind == Failure && i.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrStopping)) {
		return Exit{Kind: ShutDown}
	}
	return e
}

// finish reports the exit of the incarnation to the supervisor.
func (i *incarnation) finish() {
	if i.kind == Panicked {
		i.err = recovered(recover())
	}
	i.cancel() // contexts that were derived from it end, too
	i.s.box.put(i)
}

// recovered returns the error of a function that did not return, from the result
// of recover.
func recovered(v any) error {
	if v == nil {
		return ErrGoexit
	}
	return newPanicError(v)
}

// watch is the goroutine of a Start child: it starts the process and waits for its end.
func (i *incarnation) watch(start func(context.Context) (Process, error)) {
	if p := i.begin(start); p != nil {
		go i.await(p) // on a new stack: that of the start may have grown
	}
}

// await waits for the end of the process.
func (i *incarnation) await(p Process) {
	defer i.finish()
	i.kind = Panicked // stands unless Wait returns
	i.setExit(p.Wait())
}

// begin starts the process and reports the result to the supervisor.
func (i *incarnation) begin(start func(context.Context) (Process, error)) (p Process) {
	exit := Exit{Kind: Panicked} // stands unless start returns
	defer func() {
		if exit.Kind == Panicked {
			exit.Err = recovered(recover())
		}
		if exit.Kind != Normal {
			p = nil
			i.cancel()
		}
		if !i.s.box.put(&startResult{i, p, exit}) && p != nil {
			go i.guard(p.Kill) // the supervisor has ended
		}
	}()
	p, err := start(i)
	if err == nil && p == nil {
		err = errNothing
	}
	exit = i.classify(err)
	return p
}

// errNothing reports a Start function that violates the contract of ChildSpec.Start.
var errNothing = errors.New("start returned neither a process nor an error")

// nest is the goroutine of a Supervisor child.
func (i *incarnation) nest(sub *Supervisor) {
	go sub.loop()
	if err := sub.Started(context.Background()); err != nil {
		exit := i.classify(err)
		i.cancel()
		i.s.box.put(&startResult{i, nil, exit})
		return
	}
	i.s.box.put(&startResult{i, sub, Exit{Kind: Normal}})
	<-sub.done
	i.setExit(sub.exit)
	i.cancel()
	i.s.box.put(i)
}

// guard calls Stop or Kill of a process. They are the user's code: they may take
// long, and a panic in them must not end the program.
func (i *incarnation) guard(f func()) {
	returned := false
	defer func() {
		if !returned {
			i.s.box.put(&faultMessage{i, recovered(recover())})
		}
	}()
	f()
	returned = true
}

// newPanicError is called while the panic unwinds. Recording the program
// counters takes a microsecond; PanicError.Stack formats them later.
func newPanicError(v any) *PanicError {
	pcs := make([]uintptr, 32)
	// Skips Callers, newPanicError, recovered, the deferred function and the runtime's panic.
	return &PanicError{Value: v, pcs: pcs[:runtime.Callers(5, pcs)]}
}

type selfKey struct{}

// Self is the identity of a child.
type Self struct {
	Path, ID    string
	Incarnation uint64
	Arg         any // given to StartInstance
}

// SelfOf returns the identity of the child that ctx belongs to. ctx is the child's
// context or derived from it.
func SelfOf(ctx context.Context) (Self, bool) {
	i, ok := ctx.Value(selfKey{}).(*incarnation)
	if !ok {
		return Self{}, false
	}
	self := Self{Path: i.String(), ID: i.c.id, Incarnation: i.n}
	if i.withArg {
		self.Arg = i.more.arg
	}
	return self, true
}

// Ready reports that the child that ctx belongs to has started. Only the first call
// has an effect, and only with WaitReady.
func Ready(ctx context.Context) {
	i, ok := ctx.Value(selfKey{}).(*incarnation)
	if !ok {
		return
	}
	i.mu.Lock()
	first := !i.readied
	i.readied = true
	i.mu.Unlock()
	if first {
		i.s.box.put(&readyMessage{i})
	}
}
