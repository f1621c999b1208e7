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

// Limits bound what one agent may use, and all agents of a program together. Zero
// means the default.
type Limits struct {
	Calls    int   // nested calls; 10,000
	Memory   int64 // bytes of its values; 256 MiB
	Messages int   // that wait in its mailbox; 10,000
	// Program bounds the bytes of the values of all agents together, counted
	// with what each may allocate before it counts again; 1 GiB.
	Program int64
	Agents  int // that are summoned at a time, in the whole program; 100,000
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

// slice is the number of loops and calls between two checks of the machine: some
// hundred microseconds.
const timeSlice = 10_000

// machine runs the code of one incarnation, in one goroutine.
type machine struct {
	id     uint64 // its mark on what it made
	ctx    context.Context
	agent  *agent // nil while constants are computed
	in     *Instance
	limits *Limits
	frame  frame        // the outermost
	top    *frame       // of the last call of the library
	here   *source.Span // of the last thing that may fail

	budget int32
	depth  int32
	stop   atomic.Bool

	quota        int64 // bytes that may be allocated before what is in use is counted
	reserved     int64 // bytes of the program's memory that the machine may use
	stopWatching func() bool
}

var machines atomic.Uint64

func newMachine(ctx context.Context, in *Instance, a *agent) *machine {
	m := &machine{id: machines.Add(1), ctx: ctx, in: in, limits: &in.o.Limits, agent: a, budget: timeSlice}
	m.frame.m, m.top, m.here = m, &m.frame, &source.Span{}
	return m
}

// watch makes the end of the context stop the machine. Close ends that.
func (m *machine) watch(ctx context.Context) {
	m.ctx = ctx
	m.stop.Store(false)
	m.stopWatching = context.AfterFunc(ctx, func() { m.stop.Store(true) })
}

func (m *machine) unwatch() {
	if m.stopWatching != nil {
		m.stopWatching()
		m.stopWatching = nil
	}
}

// waiting returns the context of a wait that may take long. The siblings of an
// agent do not wait for it.
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

// frame holds the variables of one call. Frames are used again by later calls
// of the same depth.
type frame struct {
	s    []Value
	m    *machine
	ret  Value    // of scalars only n
	fn   *closure // whose variables are captured; nil in plain functions
	next *frame   // of the calls from this one; made when there is one
}

// tick is paid by each turn of a loop and each call.
func (m *machine) tick() {
	m.budget--
	if m.budget < 0 {
		m.endTimeSlice()
	}
}

// endTimeSlice is called when the budget is used up.
func (m *machine) endTimeSlice() {
	m.budget = timeSlice
	m.checkStop()
	m.waiting()
	runtime.Gosched()
}

// spend pays for work inside of a library function.
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

// enter makes the frame of a call.
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

// exit gives the frame of a call back. The frames of calls that an error left
// are given back where it is caught.
func (m *machine) exit(f *frame) {
	m.depth--
	clear(f.s)
}

// unwindTo gives back all frames above one, at which calls were depth deep.
func (m *machine) unwindTo(f *frame, depth int32) {
	at := f.next
	for n := m.depth - depth; n > 0 && at != nil; n, at = n-1, at.next {
		clear(at.s)
		at.ret, at.fn = Value{}, nil
	}
	m.depth = depth
}

// trim lets go of the frames of a deep recursion that is long over.
func (f *frame) trim() {
	for range 32 {
		if f.next == nil {
			return
		}
		f = f.next
	}
	f.next = nil
}

// protect runs something and returns the error that it throws. Nothing but a
// stop, and what leaves by a return or a yield, goes past it.
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

// guard runs something and returns what it panics with: *thrown, *leave or
// errStopped. A caller that lets it go on panics again, outside of any deferred
// function: panics inside of panics cost the more the more there are, and a
// recursion can have thousands of catches.
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

// caught returns the error of a recovered panic, or the internal error that it is.
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

// internal is an error of this package. The checker's promise that no program
// can lead to it may be broken; then it must not take other agents along.
func (m *machine) internal(cause error) *Error {
	return &Error{Kind: Runtime, Agent: m.path(), Message: fmt.Sprintf("internal error: %v", cause),
		Err: &InternalError{cause, trace()}}
}

// InternalError is a fault of the evaluator, not of the program.
type InternalError struct {
	Cause error
	Stack string // where in the evaluator
}

// Error says so.
func (e *InternalError) Error() string { return fmt.Sprintf("internal error: %v", e.Cause) }

// Unwrap is the cause.
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
