package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
	"github.com/coppice-dev/coppice/supervisor"
)

// agentCode is the compiled declaration of an agent.
type agentCode struct {
	name       string
	fields     []beliefCode
	handlers   [syntax.EventMessage + 1]*function
	persistent []string
}

// agent is one incarnation of an agent.
type agent struct {
	path         string
	code         *agentCode
	in           *Instance
	fields       []Value
	box          *mailbox
	beliefsOpen  bool // the store has them open, since some are persistent
	incarnation  uint64
	lifetime     context.Context // ends with the incarnation; summoned agents run in it
	grace        context.Context // see graceContext; nil until it is needed
	endGrace     context.CancelFunc
	paused       bool
	startPending bool // on waking is over and the supervisor still waits for the start
	handle       *Handle
	siblings     map[*check.Object]*Handle // of a supervised agent, those that have names

	mu       sync.Mutex
	summoned map[*Handle]struct{}
	names    map[string]int // number of summoned agents of each kind
}

func (a *agent) identity() host.Agent { return host.Agent{Path: a.path, Incarnation: a.incarnation} }

// runIncarnation runs an incarnation from its start to its end: beliefs, on waking, on start, the
// mailbox if there is an on message, on error if any of these fails, and on resting. The error is
// nil after a normal end and ErrShutdown after a stop. Otherwise it says why the agent failed.
func (a *agent) runIncarnation(ctx context.Context, init beliefInit) (err error) {
	lifetime, cancel := context.WithCancel(ctx)
	defer cancel()
	a.lifetime = lifetime
	m := newMachine(ctx, a.in, a)
	m.watch(ctx)
	defer func() { m.unwatch(); m.reserve(0) }()
	defer a.in.register(a)()
	defer func() {
		if v := recover(); v != nil {
			err = m.internal(fmt.Errorf("%v", v))
		}
	}()

	defer func() {
		if a.endGrace != nil {
			a.endGrace()
		}
	}()
	result, err := a.runHandlers(m, init)
	if err != nil && !errors.Is(err, errStopped) {
		a.runOnError(m, err)
	}
	err = errors.Join(err, a.runResting(m, ctx))
	cancel()
	a.stopSummoned()
	if a.beliefsOpen {
		a.in.o.Beliefs.CloseBeliefs(a.identity())
	}
	a.finish(result, err)
	return exitError(err)
}

// reportStart tells the supervisor, once, that the agent has started. An agent has started when on
// waking is over and on start waits for the first time, has used up a time slice or has ended. So
// whatever an agent does before its first wait happens before the next sibling starts. An agent
// whose on waking fails has failed to start.
func (a *agent) reportStart() {
	if a.startPending {
		a.startPending = false
		a.in.o.Output.Started(a.lifetime, a.identity())
	}
}

// exitError converts an error to the one that the supervisor gets.
func exitError(err error) error {
	if err == nil {
		return nil
	}
	var failed *Error
	if errors.Is(err, errStopped) && !errors.As(err, &failed) {
		return supervisor.ErrShutdown
	}
	if failed != nil && !errors.Is(err, supervisor.ErrShutdown) {
		return failed
	}
	return err
}

func (a *agent) runHandlers(m *machine, init beliefInit) (Value, error) {
	if _, _, err := m.attempt(func() (outcome, Value) { a.initBeliefs(m, init); return normal, unit }); err != nil {
		return unit, err
	}
	if _, _, err := a.event(m, syntax.EventWaking); err != nil {
		return unit, err
	}
	a.startPending = a.handle.supervised
	how, result, err := a.event(m, syntax.EventStart)
	if err != nil || how == yielding || a.code.handlers[syntax.EventMessage] == nil {
		return result, err
	}
	for {
		how, result, err := m.attempt(func() (outcome, Value) {
			message := a.receive(m, &m.frame)
			return m.invoke(a.code.handlers[syntax.EventMessage], message)
		})
		if err != nil || how == yielding {
			return result, err
		}
	}
}

// event runs the handler of an event, if the agent has one.
func (a *agent) event(m *machine, e syntax.Event, args ...Value) (outcome, Value, error) {
	h := a.code.handlers[e]
	if h == nil {
		return normal, unit, nil
	}
	return m.attempt(func() (outcome, Value) { return m.invoke(h, args...) })
}

// attempt runs a function until it returns, fails or is stopped.
func (m *machine) attempt(run func() (outcome, Value)) (how outcome, v Value, err error) {
	switch x := m.guard(&m.frame, func() { how, v = run() }).(type) {
	case *thrown:
		return normal, unit, x.err
	case error:
		return normal, unit, x
	case *leave:
		return normal, unit, m.internal(fmt.Errorf("nothing takes a %d", x.how))
	}
	return how, v, nil
}

// invoke calls a function from outside of the program.
func (m *machine) invoke(fn *function, args ...Value) (outcome, Value) {
	f := m.enter(&m.frame, fn.slots, m.here)
	copy(f.s, args)
	how := fn.run(f)
	v := f.ret
	if fn.result != 0 {
		v.ref = fn.result
	}
	f.ret = Value{}
	m.exit(f)
	return how, v
}

// runOnError runs on error. The agent has failed even if on error succeeds.
func (a *agent) runOnError(m *machine, err error) {
	_, _, again := a.event(m, syntax.EventError, errorValue(asError(err)))
	if again != nil && !errors.Is(again, errStopped) {
		a.in.o.Log.Warn("on error fails as well", "agent", a.path, "error", again)
	}
}

// runResting runs on resting within the time that a stop may take.
func (a *agent) runResting(m *machine, ctx context.Context) error {
	if a.code.handlers[syntax.EventResting] == nil {
		return nil
	}
	m.unwatch()
	grace, cancel := context.WithTimeout(a.graceContext(ctx), a.in.graceTime())
	defer cancel()
	a.grace = grace // writes in on resting must not outlast it
	err := errStopped
	if grace.Err() == nil {
		m.watch(grace)
		_, _, err = a.event(m, syntax.EventResting)
	}
	if errors.Is(err, errStopped) {
		return &Error{Kind: Timeout, Agent: a.path, Message: fmt.Sprintf(
			"%s: on resting did not finish within %v, the time for a stop", a.path, a.in.graceTime())}
	}
	return err
}

// graceContext returns a context for work that is finished even if the agent is asked to stop: on
// resting and durable writes. It ends when the time for a stop is over.
func (a *agent) graceContext(ctx context.Context) context.Context {
	if a.grace == nil {
		grace, end := context.WithCancel(context.WithoutCancel(ctx))
		limited := context.AfterFunc(ctx, func() {
			timer := time.NewTimer(a.in.graceTime())
			defer timer.Stop()
			select {
			case <-timer.C:
				end()
			case <-grace.Done():
			}
		})
		a.grace, a.endGrace = grace, func() { limited(); end() }
	}
	return a.grace
}

// graceTime is the part of the time for a stop that on resting and writes may use.
func (in *Instance) graceTime() time.Duration { return in.o.Shutdown * 9 / 10 }

// stopSummoned stops the agents that this one has summoned and waits for them.
func (a *agent) stopSummoned() {
	a.mu.Lock()
	left := make([]*Handle, 0, len(a.summoned))
	for h := range a.summoned {
		left = append(left, h)
	}
	a.mu.Unlock()
	for _, h := range left {
		h.cancel()
	}
	for _, h := range left {
		<-h.done
	}
}

// finish gives the result to all agents that await this one.
func (a *agent) finish(result Value, err error) {
	h := a.handle
	if h.supervised {
		return
	}
	h.result = result
	var failed *Error
	switch {
	case errors.As(err, &failed):
		h.err = failed
	case err != nil:
		h.ended = true
	}
	close(h.done)
}

// receive waits for the next message. The agent can be paused and resumed while it waits.
func (a *agent) receive(m *machine, f *frame) Value {
	for {
		m.checkStop()
		e, found, paused, wake := a.box.take()
		if found {
			return e
		}
		if paused != a.paused {
			a.paused = paused
			event := syntax.EventResume
			if paused {
				event = syntax.EventPause
			}
			if h := a.code.handlers[event]; h != nil {
				to := m.enter(f, h.slots, m.here)
				h.run(to)
				m.exit(to)
			}
			continue
		}
		f.trim()
		a.box.markIdle()
		select {
		case <-wake:
		case <-m.waiting().Done():
			m.stop.Store(true)
		}
	}
}

// compileAgent compiles an agent without the bodies of its handlers.
func (p *Program) compileAgent(a *check.Agent) *agentCode {
	code := &agentCode{name: a.Object.Name}
	for _, o := range a.Beliefs {
		f, _ := o.Node.(*syntax.Field)
		b := beliefCode{name: o.Name, shape: p.shape(o.Type), persistent: persistent(o)}
		if f != nil && f.Value != nil {
			b.value = p.thunk(f.Value)
		}
		if b.persistent {
			code.persistent = append(code.persistent, b.name)
		}
		code.fields = append(code.fields, b)
	}
	return code
}

// compileHandlers compiles the handlers of an agent.
func (p *Program) compileHandlers(a *check.Agent, code *agentCode) {
	for _, h := range a.Decl.Handlers() {
		if h.Event > syntax.EventMessage || h.Body == nil {
			continue
		}
		m := p.newCompiler("on "+h.Event.String(), 0, types.Unit)
		if h.Param != nil {
			m.parameter(p.info.Defs[h.Param.Name])
		} else if h.Event == syntax.EventError || h.Event == syntax.EventMessage {
			m.slot()
		}
		m.fn.body = m.block(h.Body, sink{kind: discard})
		code.handlers[h.Event] = m.fn
	}
}

// forever is the timeout of an await that has none.
const forever = time.Duration(1<<63 - 1)
