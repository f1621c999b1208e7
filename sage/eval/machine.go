package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/coppice-dev/coppice/sage/source"
)

// Limits bound the resources of one agent, and of all agents of a program together. Zero means the
// default.
type Limits struct {
	Calls    int   // nested calls; 10,000
	Memory   int64 // bytes of its values; 256 MiB
	Messages int   // messages that wait in its mailbox; 10,000
	// Program bounds the bytes of the values of all agents together, including what each may
	// allocate before its next count; 1 GiB.
	Program int64
	Agents  int // running summoned agents of the whole program; 100,000
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Calls:    cmp.Or(max(l.Calls, 0), 10_000),
		Memory:   cmp.Or(max(l.Memory, 0), 256<<20),
		Messages: cmp.Or(max(l.Messages, 0), 10_000),
		Program:  cmp.Or(max(l.Program, 0), 1<<30),
		Agents:   cmp.Or(max(l.Agents, 0), 100_000),
	}
}

// timeSlice is the number of loop iterations and calls between two checks for a stop. It lasts
// some hundred microseconds.
const timeSlice = 10_000

// machine runs the code of one incarnation in one goroutine.
type machine struct {
	id     uint64 // marks the values that it made
	ctx    context.Context
	agent  *agent // nil while constants are computed
	in     *Instance
	limits *Limits
	frame  frame        // the outermost frame
	top    *frame       // the frame of the last call of a native
	here   *source.Span // the position of the last operation that may fail

	budget int32
	depth  int32
	stop   *atomic.Bool // of the last watch, since an earlier one may still note its end

	quota        int64 // bytes that may be allocated before the next memory count
	reserved     int64 // bytes of the program's memory that the machine has reserved
	stopWatching func() bool
}

var machines atomic.Uint64

func newMachine(ctx context.Context, in *Instance, a *agent) *machine {
	m := &machine{id: machines.Add(1), ctx: ctx, in: in, limits: &in.o.Limits, agent: a, budget: timeSlice,
		stop: new(atomic.Bool)}
	m.frame.m, m.top, m.here = m, &m.frame, &source.Span{}
	return m
}

// watch makes the end of the context stop the machine until unwatch is called.
func (m *machine) watch(ctx context.Context) {
	stop := new(atomic.Bool)
	m.ctx, m.stop = ctx, stop
	m.stopWatching = context.AfterFunc(ctx, func() { stop.Store(true) })
}

func (m *machine) unwatch() {
	if m.stopWatching != nil {
		m.stopWatching()
		m.stopWatching = nil
	}
}

// waiting returns the context for a wait that may take long. It reports the start of the agent
// first, so that its siblings do not wait for it.
func (m *machine) waiting() context.Context {
	if m.agent != nil {
		m.agent.reportStart()
	}
	return m.ctx
}

func (m *machine) path() string {
	if m.agent == nil {
		return "program"
	}
	return m.agent.path
}

// frame holds the variables of one call. Later calls of the same depth reuse it.
type frame struct {
	s    []Value
	m    *machine
	ret  Value    // for scalars only n is valid
	fn   *closure // the closure that is running; nil in plain functions
	next *frame   // for calls from this one; made by the first one
}

// tick accounts for one loop iteration or call.
func (m *machine) tick() {
	m.budget--
	if m.budget < 0 {
		m.endTimeSlice()
	}
}

// endTimeSlice begins a new time slice and lets other goroutines run.
func (m *machine) endTimeSlice() {
	m.budget = timeSlice
	m.checkStop()
	m.waiting()
	runtime.Gosched()
}

// spend accounts for work inside of a native.
func (m *machine) spend(steps int) {
	if steps > int(m.budget) {
		m.endTimeSlice()
		return
	}
	m.budget -= int32(steps)
}

func (m *machine) checkStop() {
	if m.stop.Load() {
		panic(errStopped)
	}
}

// halt stops the machine, whose context has ended.
func (m *machine) halt() {
	m.stop.Store(true)
	panic(errStopped)
}

// enter returns the frame for a call.
func (m *machine) enter(from *frame, slots int, at *source.Span) *frame {
	m.budget--
	if m.budget < 0 {
		m.endTimeSlice()
	}
	if m.depth >= int32(m.limits.Calls) {
		m.here = at
		m.throwLimit("calls", int64(m.limits.Calls))
	}
	m.depth++
	next := from.next
	if next == nil {
		next = &frame{m: m}
		from.next = next
	}
	if slots <= cap(next.s) {
		next.s = next.s[:slots]
	} else {
		m.here = at
		m.charge(slots * valueSize)
		next.s = make([]Value, slots)
	}
	return next
}

// exit releases the frame of a call. The frames of calls that an error has left are released where
// the error is caught.
func (m *machine) exit(f *frame) {
	m.depth--
	clear(f.s)
}

// unwindTo releases all frames above f, where depth is the depth of calls at f.
func (m *machine) unwindTo(f *frame, depth int32) {
	at := f.next
	for n := m.depth - depth; n > 0 && at != nil; n, at = n-1, at.next {
		clear(at.s)
		at.ret, at.fn = Value{}, nil
	}
	m.depth = depth
}

// trim drops the frames of an earlier deep recursion.
func (f *frame) trim() {
	for range 32 {
		if f.next == nil {
			return
		}
		f = f.next
	}
	f.next = nil
}

// protect calls run and returns the error that it throws. Stops, and jumps out of the expression,
// pass through.
func (m *machine) protect(f *frame, run func()) *Error {
	v := m.guard(f, run)
	if v == nil {
		return nil
	}
	err, is := v.(*thrown)
	if !is {
		panic(v)
	}
	return err.err
}

// guard calls run and returns its panic value: *thrown, *leave or errStopped. A caller that lets
// the panic continue panics again outside of any deferred function. Nested panics cost more the
// more there are, and a recursion can have thousands of catches.
func (m *machine) guard(f *frame, run func()) (v any) {
	depth := m.depth
	done := false
	defer func() {
		if done {
			return
		}
		v = m.caught(recover())
		m.unwindTo(f, depth)
	}()
	run()
	done = true
	return nil
}

// caught returns a recovered panic value, with unexpected ones as an internal error.
func (m *machine) caught(v any) any {
	switch x := v.(type) {
	case *thrown, *leave:
		return v
	case error:
		if errors.Is(x, errStopped) {
			return v
		}
		return &thrown{m.internal(x)}
	}
	return &thrown{m.internal(fmt.Errorf("%v", v))}
}

// internal returns an error for a fault of this package. The checker should make such faults
// impossible; if it does not, other agents keep running.
func (m *machine) internal(cause error) *Error {
	return &Error{Kind: Runtime, Agent: m.path(), Message: fmt.Sprintf("internal error: %v", cause),
		Err: &InternalError{cause, trace()}}
}

// InternalError is a fault of the evaluator, not of the program.
type InternalError struct {
	Cause error
	Stack string // of the evaluator
}

// Error returns the cause with a prefix.
func (e *InternalError) Error() string { return fmt.Sprintf("internal error: %v", e.Cause) }

// Unwrap returns the cause.
func (e *InternalError) Unwrap() error { return e.Cause }

// trace returns the stack of the panic that is being handled, without addresses.
func trace() string {
	pcs := make([]uintptr, 24)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s:%d\n", f.Function, f.Line)
		if !more {
			return b.String()
		}
	}
}
