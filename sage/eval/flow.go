package eval

import (
	"errors"
	"time"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

// errorRecord is the record Error of the language.
var errorRecord = &recordKind{name: "Error", fields: []string{"message", "kind"}}

// errorValue returns an error as a value of the program.
func errorValue(e *Error) Value {
	return Value{ref: &record{kind: errorRecord, fields: []Value{textValue(e.Message), errorKindVariants[e.Kind].bare}}}
}

// failure returns the error that fail throws. An Error is passed on; any other value is the
// message.
func (m *machine) failure(v Value) *Error {
	if r, is := v.ref.(*record); is && len(r.fields) == 2 && r.kind.name == errorRecord.name {
		if kind, is := r.fields[1].ref.(*variant); is && kind.kind.tag < len(kindNames) {
			return &Error{Kind: ErrorKind(kind.kind.tag), Message: r.fields[0].text(), Value: v}
		}
	}
	return &Error{Kind: User, Message: show(v), Value: v}
}

func (m *compiler) fail(x *syntax.FailExpr) code {
	c, at := m.keep(x.X), spanOf(x)
	v := c.v
	raise := func(f *frame) {
		err := f.m.failure(v(f))
		f.m.here = at
		f.m.raise(err)
	}
	// It never produces a value, so it can stand in place of any.
	return code{
		v: func(f *frame) Value { raise(f); return unit },
		i: func(f *frame) int64 { raise(f); return 0 },
		f: func(f *frame) float64 { raise(f); return 0 },
		b: func(f *frame) bool { raise(f); return false },
		t: func(f *frame) string { raise(f); return "" },

		calls: c.calls, local: -1,
	}
}

// try compiles try x. An Err is thrown as an error; other errors need no code.
func (m *compiler) try(x *syntax.TryExpr) code {
	c := m.expr(x.X)
	if !m.p.info.Unwraps[x] {
		return c
	}
	v, at := c.v, spanOf(x)
	return valueCode(m.typeOf(x).Kind, func(f *frame) Value { return f.m.unwrapOk(v(f), at) }).withCalls(c.calls)
}

// unwrapOk returns the value in an Ok and throws an Err.
func (m *machine) unwrapOk(result Value, at *source.Span) Value {
	if result.n != 0 {
		err := m.failure(result.payload())
		m.here = at
		m.raise(err)
	}
	return m.sharedPayload(result)
}

// catch compiles a catch as a statement. Its value is that of the operand, or of the body if the
// operand fails.
func (m *compiler) catch(x *syntax.CatchExpr, to sink) stmt {
	defer m.mark()()
	slot := m.slot()
	try := m.into(x.X, sink{kind: toSlot, slot: slot})
	unwraps, at := m.p.info.Unwraps[x], spanOf(x.X)
	run := func(f *frame) (how outcome, err *Error) {
		err = f.m.protect(f, func() {
			how = try(f)
			if unwraps && how == normal {
				f.s[slot] = f.m.unwrapOk(f.s[slot], at)
			}
		})
		return how, err
	}
	done := fromSlot(slot, to)
	if x.Body == nil {
		return func(f *frame) outcome {
			how, err := run(f)
			if err != nil {
				f.s[slot] = errResult(errorValue(err))
			} else if how != normal {
				return how
			} else {
				f.s[slot] = okResult(f.s[slot])
			}
			return done(f)
		}
	}
	begin := func(*frame, Value) {}
	if x.Err != nil {
		if o := m.p.info.Defs[x.Err]; o != nil {
			begin = m.declare(o).begin()
		}
	}
	body := m.block(x.Body, to)
	return func(f *frame) outcome {
		how, err := run(f)
		if err != nil {
			begin(f, errorValue(err))
			return body(f)
		}
		if how != normal {
			return how
		}
		return done(f)
	}
}

// fromSlot is the statement that moves a value from a slot to a sink.
func fromSlot(slot int, to sink) stmt {
	return put(to, func(f *frame) Value { return f.s[slot] })
}

// retry compiles a statement that runs its body up to count times until it succeeds. With on, only
// errors of these kinds are retried. Delay is the wait between two attempts.
func (m *compiler) retry(x *syntax.RetryExpr, to sink) stmt {
	defer m.mark()()
	at := spanOf(x)
	count := m.expr(x.Count).int()
	delay := func(*frame) int64 { return 0 }
	if x.Delay != nil {
		delay = m.expr(x.Delay).int()
	}
	var on func(*frame) Value
	kinds := m.slot()
	if x.On != nil {
		on = m.expr(x.On).v
	}
	slot := m.slot()
	body := m.block(x.Body, sink{kind: toSlot, slot: slot})
	done := fromSlot(slot, to)
	return func(f *frame) outcome {
		tries, wait := count(f), delay(f)
		if on != nil {
			f.s[kinds] = on(f)
		}
		if tries < 1 {
			f.m.here = at
			f.m.throw(Runtime, "retry: %d tries, expected 1 or more", tries)
		}
		for n := int64(1); ; n++ {
			var how outcome
			err := f.m.protect(f, func() { how = body(f) })
			switch {
			case err == nil && how != normal:
				return how
			case err == nil:
				return done(f)
			case n == tries || on != nil && !listed(f.s[kinds], err.Kind):
				panic(&thrown{err})
			}
			f.m.tick()
			f.m.sleep(time.Duration(wait) * time.Millisecond)
		}
	}
}

func listed(kinds Value, k ErrorKind) bool {
	if v, one := kinds.ref.(*variant); one {
		return v.kind.tag == int(k)
	}
	for _, e := range kinds.elems() {
		if e.n == int64(k) {
			return true
		}
	}
	return false
}

// sleep waits for a duration or until the agent is stopped.
func (m *machine) sleep(d time.Duration) {
	m.checkStop()
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.waiting().Done():
		m.halt()
	}
}

// assertFails compiles assert_fails(x), which computes its own operand.
func (m *compiler) assertFails(e syntax.Expr, at *source.Span) code {
	slot := m.slot()
	m.exprDepth++
	try := m.into(e, sink{kind: toSlot, slot: slot})
	m.exprDepth--
	return code{calls: true, local: -1, v: func(f *frame) Value {
		err := f.m.protect(f, func() { try(f) })
		if err == nil {
			if r, is := f.s[slot].ref.(*variant); is && r.kind == errKind {
				return unit
			}
			f.m.here = at
			f.m.throw(Runtime, "expected an error, found %s", truncated(show(f.s[slot]), 200))
		}
		return unit
	}}
}

// asError returns any error as an error of a program.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Runtime, Message: err.Error(), Err: err}
}

// ifExpr compiles an if whose value is used. If both branches are plain expressions, it needs no
// statements.
func (m *compiler) ifExpr(x *syntax.IfExpr) code {
	then, thenPlain := soleExpr(x.Then)
	other, otherPlain := m.soleElse(x)
	if !thenPlain || !otherPlain {
		return m.detached(x)
	}
	cond, a, b := m.expr(x.Cond), m.expr(then), m.expr(other)
	if a.v == nil || b.v == nil {
		return m.detached(x)
	}
	is := cond.bool()
	calls := cond.calls || a.calls || b.calls
	var c code
	switch {
	case a.i != nil && b.i != nil:
		c = intCode(choice(is, a.i, b.i))
	case a.b != nil && b.b != nil:
		c = boolCode(choice(is, a.b, b.b))
	default:
		c = valueCode(m.typeOf(x).Kind, choice(is, a.v, b.v))
		c.alias = a.alias || b.alias
	}
	return c.withCalls(calls)
}

func choice[T any](is func(*frame) bool, then, other func(*frame) T) func(*frame) T {
	return func(f *frame) T {
		if is(f) {
			return then(f)
		}
		return other(f)
	}
}

// soleExpr returns the expression that a block consists of, if it has no statements and the
// expression does not leave the block.
func soleExpr(b *syntax.Block) (syntax.Expr, bool) {
	if b == nil || len(b.Stmts) > 0 || b.Tail == nil {
		return nil, false
	}
	switch b.Tail.(type) {
	case *syntax.MatchExpr, *syntax.BlockExpr, *syntax.CatchExpr, *syntax.RetryExpr,
		*syntax.ReturnExpr, *syntax.YieldExpr, *syntax.BreakExpr, *syntax.ContinueExpr:
		return nil, false
	}
	return b.Tail, true
}

func (m *compiler) soleElse(x *syntax.IfExpr) (syntax.Expr, bool) {
	switch e := x.Else.(type) {
	case *syntax.BlockExpr:
		return soleExpr(e.Block)
	case *syntax.IfExpr:
		_, then := soleExpr(e.Then)
		_, other := m.soleElse(e)
		return e, then && other
	}
	return nil, false
}
