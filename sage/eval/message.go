package eval

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// isolate makes a value safe for another agent. Its parts are marked as shared and so never
// change. Closures are copied, since they could share variables.
func (m *machine) isolate(v Value) Value {
	c, is := v.ref.(*closure)
	if !is {
		m.share(v)
		return v
	}
	return Value{ref: m.isolatedClosure(c, 0)}
}

func (m *machine) isolatedClosure(c *closure, depth int) *closure {
	mine := &closure{fn: c.fn, captured: append([]Value(nil), c.captured...)}
	for i, v := range mine.captured {
		if x, is := v.ref.(*cell); is {
			v = x.v
		}
		if f, is := v.ref.(*closure); is && depth < 100 {
			v = Value{ref: m.isolatedClosure(f, depth+1)}
		}
		m.share(v)
		if _, is := mine.captured[i].ref.(*cell); is {
			v = Value{ref: &cell{v}}
		}
		mine.captured[i] = v
	}
	return mine
}

// inits compiles the first values of beliefs.
func (m *compiler) inits(of *check.Agent, inits []*syntax.FieldInit) (at []int, codes []code) {
	for _, init := range inits {
		o := of.Belief(init.Name.Name)
		if o == nil {
			panic(fmt.Sprintf("%v: %s has no belief %s", init.Extent().Position(), of.Object.Name, init.Name.Name))
		}
		at = append(at, o.Index)
		codes = append(codes, m.keep(init.Value))
	}
	return at, codes
}

func (m *compiler) summon(x *syntax.SummonExpr) code {
	of := m.p.byName[m.p.info.Uses[x.Agent.Last()]]
	agent, at := m.p.agents[of], spanOf(x)
	where, codes := m.inits(of, x.Inits)
	prepare, ready := m.spilled(codes...)
	n := len(agent.fields)
	return code{calls: true, local: -1, v: func(f *frame) Value {
		if prepare != nil {
			prepare(f)
		}
		values := make([]Value, n)
		for i, c := range ready {
			values[where[i]] = f.m.isolate(c.v(f))
		}
		f.m.here = at
		return Value{ref: f.m.agent.summon(f.m, agent, values)}
	}}
}

// summon starts an agent that ends with this one at the latest.
func (a *agent) summon(m *machine, code *agentCode, values []Value) *Handle {
	m.checkStop()
	in := a.in
	if limit := int64(in.o.Limits.Agents); in.summoned.Add(1) > limit {
		in.summoned.Add(-1)
		m.throwLimit("agents", limit)
	}
	a.mu.Lock()
	if a.names == nil {
		a.names, a.summoned = map[string]int{}, map[*Handle]struct{}{}
	}
	a.names[code.name]++
	path := a.path + "/" + numbered(code.name, a.names[code.name])
	ctx, cancel := context.WithCancel(a.lifetime)
	box := &mailbox{max: in.o.Limits.Messages}
	h := newHandle(path, box)
	h.cancel = cancel
	a.summoned[h] = struct{}{}
	a.mu.Unlock()
	next := &agent{path: path, incarnation: a.incarnation, code: code, in: in, box: box, handle: h}
	go func() {
		defer cancel()
		_ = next.runIncarnation(ctx, func(_ *machine, fields []Value) { copy(fields, values) })
		box.close()
		in.summoned.Add(-1)
		a.mu.Lock()
		delete(a.summoned, h)
		a.mu.Unlock()
	}()
	return h
}

// numbered distinguishes agents of one name: Counter, Counter-2, Counter-3.
func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, n)
}

func (m *compiler) await(x *syntax.AwaitExpr) code {
	codes := []code{m.expr(x.X)}
	if x.Timeout != nil {
		codes = append(codes, m.expr(x.Timeout))
	}
	prepare, c := m.spilled(codes...)
	of, at := c[0].v, spanOf(x)
	timeout := func(*frame) time.Duration { return forever }
	if x.Timeout != nil {
		ms := c[1].int()
		timeout = func(f *frame) time.Duration { return milliseconds(ms(f)) }
	}
	return after(prepare, valueCode(m.typeOf(x).Kind, func(f *frame) Value {
		h := of(f).ref.(*Handle)
		d := timeout(f)
		f.m.here = at
		return f.m.await(h, d)
	}).withCalls(true))
}

func milliseconds(n int64) time.Duration {
	if n > int64(forever/time.Millisecond) {
		return forever
	}
	return time.Duration(max(n, 0)) * time.Millisecond
}

// await waits for the end of an agent and returns the value that it yielded. A failure, a stop and
// a timeout are errors.
func (m *machine) await(h *Handle, d time.Duration) Value {
	m.checkStop()
	switch {
	case m.agent != nil && h == m.agent.handle:
		m.throw(Agent, "%s cannot await itself", h.path)
	case h.supervised:
		m.throw(Agent, "%s is a child of a supervisor and cannot be awaited", h.path)
	}
	var over <-chan time.Time
	if d != forever {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-h.done:
	case <-m.waiting().Done():
		m.halt()
	case <-over:
		select {
		case <-h.done:
		default:
			m.throw(Timeout, "%s did not end within %v", h.path, d)
		}
	}
	if m.ctx.Err() != nil { // the summoned agents are being stopped, too
		m.halt()
	}
	switch {
	case h.err != nil:
		m.raise(&Error{Kind: Agent, Message: h.path + " failed: " + h.err.Message, Err: h.err})
	case h.ended:
		m.throw(Agent, "%s was stopped", h.path)
	}
	return h.result
}

func (m *compiler) send(x *syntax.SendExpr) code {
	prepare, c := m.spilled(m.expr(x.To), m.keep(x.Message))
	to, message, at := c[0].v, c[1].v, spanOf(x)
	return after(prepare, code{calls: anyCalls(c), local: -1, v: func(f *frame) Value {
		h := to(f).ref.(*Handle)
		v := message(f)
		f.m.here = at
		f.m.send(h, v)
		return unit
	}})
}

func (m *machine) send(h *Handle, v Value) {
	m.tick()
	fits, open := h.box.put(m.isolate(v))
	if !open {
		m.throw(Agent, "%s has ended and takes no messages", h.path)
	}
	if !fits {
		err := &LimitError{Agent: h.path, Limit: "messages", Max: int64(h.box.max)}
		m.raise(&Error{Kind: Agent, Message: err.Error(), Err: err})
	}
}

func (m *compiler) receive(x *syntax.ReceiveExpr) code {
	at := spanOf(x)
	return valueCode(m.typeOf(x).Kind, func(f *frame) Value {
		f.m.here = at
		return f.m.agent.receive(f.m, f)
	}).withCalls(true)
}

func (m *compiler) trace(x *syntax.TraceExpr) code {
	c := m.expr(x.Value)
	v := c.v
	return code{calls: c.calls, local: -1, v: func(f *frame) Value {
		message := v(f)
		if f.m.in.tracing() {
			f.m.in.trace(f.m.path(), map[string]any{"kind": "user", "message": show(message)})
		}
		return unit
	}}
}

// childInit compiles the beliefs that a child gives to its agent.
func (p *Program) childInit(c *check.Child) beliefInit {
	if len(c.Beliefs) == 0 {
		return nil
	}
	m := p.newCompiler("child", 0, types.Invalid)
	at, codes := m.inits(c.Agent, c.Beliefs)
	prepare, ready := m.spilled(codes...)
	into := &source.Span{}
	return func(mc *machine, fields []Value) {
		f := mc.enter(&mc.frame, m.fn.slots, into)
		if prepare != nil {
			prepare(f)
		}
		for i, c := range ready {
			fields[at[i]] = c.v(f)
		}
		mc.exit(f)
	}
}
