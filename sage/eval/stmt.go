package eval

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/sage/syntax"
	"github.com/coppice-dev/coppice/sage/types"
)

// sink is the destination of the value of an expression.
type sink struct {
	kind sinkKind
	slot int
}

type sinkKind uint8

const (
	discard  sinkKind = iota
	toSlot            // stored in the frame
	toReturn          // returned by the function
	toYield           // yielded by the handler
)

type stmt = func(*frame) outcome

// into compiles an expression whose value goes into a sink. Expressions that consist of statements
// are compiled to statements.
func (m *compiler) into(e syntax.Expr, to sink) stmt {
	switch x := e.(type) {
	case *syntax.ParenExpr:
		return m.into(x.X, to)
	case *syntax.BlockExpr:
		return m.block(x.Block, to)
	case *syntax.IfExpr:
		return m.ifStmt(x, to)
	case *syntax.MatchExpr:
		return m.match(x, to)
	case *syntax.CatchExpr:
		return m.catch(x, to)
	case *syntax.RetryExpr:
		return m.retry(x, to)
	case *syntax.ReturnExpr:
		m.returns++
		if x.Value == nil {
			return put(sink{kind: toReturn}, unitOf)
		}
		return m.body(x.Value)
	case *syntax.YieldExpr:
		m.returns++
		if x.Value == nil {
			return put(sink{kind: toYield}, unitOf)
		}
		return m.into(x.Value, sink{kind: toYield})
	case *syntax.BreakExpr:
		if m.loop != nil {
			m.loop.jumps++
		}
		return func(*frame) outcome { return breaking }
	case *syntax.ContinueExpr:
		if m.loop != nil {
			m.loop.jumps++
		}
		return func(*frame) outcome { return continuing }
	}
	switch to.kind {
	case discard:
		do := m.expr(e).do()
		return func(f *frame) outcome {
			do(f)
			return normal
		}
	case toSlot:
		return put(to, m.keep(e).v)
	case toYield:
		return put(to, m.tail(e).v)
	}
	c := m.tail(e)
	if i := c.i; i != nil && scalarOf(m.result) != 0 && m.typeOf(e).Kind != types.Never {
		return func(f *frame) outcome {
			f.ret.n = i(f)
			return returning
		}
	}
	return put(to, c.v)
}

// put is the statement that computes a value and stores it in a sink.
func put(to sink, v func(*frame) Value) stmt {
	switch to.kind {
	case toSlot:
		slot := to.slot
		return func(f *frame) outcome {
			f.s[slot] = v(f)
			return normal
		}
	case toReturn:
		return func(f *frame) outcome {
			f.ret = v(f)
			return returning
		}
	case toYield:
		return func(f *frame) outcome {
			f.ret = v(f)
			return yielding
		}
	}
	return func(*frame) outcome { return normal }
}

func unitOf(*frame) Value { return unit }

// returnUnit is the statement that computes an expression and returns unit.
func (m *compiler) returnUnit(e syntax.Expr) stmt {
	run := m.into(e, sink{kind: discard})
	return func(f *frame) outcome {
		if how := run(f); how != normal {
			return how
		}
		f.ret = unit
		return returning
	}
}

// block compiles a block. Its value is that of its tail.
func (m *compiler) block(b *syntax.Block, to sink) stmt {
	release := m.mark()
	var stmts []stmt
	for _, s := range b.Stmts {
		stmts = append(stmts, m.stmt(s))
	}
	if b.Tail != nil {
		stmts = append(stmts, m.into(b.Tail, to))
	} else if to.kind != discard && !m.endsInJump(b) {
		stmts = append(stmts, put(to, unitOf))
	}
	release()
	return sequence(stmts)
}

// endsInJump reports whether the last statement of a block always leaves it.
func (m *compiler) endsInJump(b *syntax.Block) bool {
	if len(b.Stmts) == 0 {
		return false
	}
	s, is := b.Stmts[len(b.Stmts)-1].(*syntax.ExprStmt)
	if !is {
		return false
	}
	switch s.X.(type) {
	case *syntax.ReturnExpr, *syntax.YieldExpr, *syntax.BreakExpr, *syntax.ContinueExpr:
		return true
	}
	return false
}

// sequence runs statements one after the other.
func sequence(stmts []stmt) stmt {
	switch len(stmts) {
	case 0:
		return func(*frame) outcome { return normal }
	case 1:
		return stmts[0]
	case 2:
		a, b := stmts[0], stmts[1]
		return func(f *frame) outcome {
			if how := a(f); how != normal {
				return how
			}
			return b(f)
		}
	case 3:
		a, b, c := stmts[0], stmts[1], stmts[2]
		return func(f *frame) outcome {
			if how := a(f); how != normal {
				return how
			}
			if how := b(f); how != normal {
				return how
			}
			return c(f)
		}
	}
	return func(f *frame) outcome {
		for _, s := range stmts {
			if how := s(f); how != normal {
				return how
			}
		}
		return normal
	}
}

func (m *compiler) stmt(s syntax.Stmt) stmt {
	switch x := s.(type) {
	case *syntax.LetStmt:
		return m.let(x)
	case *syntax.AssignStmt:
		defer m.mark()()
		return m.assign(x)
	case *syntax.ExprStmt:
		defer m.mark()()
		return m.into(x.X, sink{kind: discard})
	case *syntax.ForStmt:
		return m.forStmt(x)
	case *syntax.WhileStmt:
		return m.while(x.Cond, x.Body)
	case *syntax.LoopStmt:
		return m.while(nil, x.Body)
	case *syntax.SpanStmt:
		return m.span(x)
	case *syntax.MockStmt:
		return m.mock(x)
	}
	panic(fmt.Sprintf("a statement of type %T cannot be compiled", s))
}

func (m *compiler) let(x *syntax.LetStmt) stmt {
	bind, simple := x.Pattern.(*syntax.BindPat)
	if simple {
		// A plain variable needs no detour through a sink.
		if o := m.p.info.Defs[bind.Name]; o != nil && !(o.Captured && o.Assigned) && !isStatement(x.Value) {
			c := m.keep(x.Value)
			slot := m.declare(o).slot
			if i := c.i; i != nil {
				return func(f *frame) outcome {
					// The slot may hold a former list, whose length would be n.
					f.s[slot] = Value{n: i(f)}
					return normal
				}
			}
			v := c.v
			return func(f *frame) outcome {
				f.s[slot] = v(f)
				return normal
			}
		}
	}
	slot := m.slot()
	value := m.into(x.Value, sink{kind: toSlot, slot: slot})
	var fits func(*frame, Value) bool
	if simple {
		o := m.p.info.Defs[bind.Name]
		if o == nil {
			return value
		}
		begin := m.declare(o).begin()
		fits = func(f *frame, v Value) bool {
			begin(f, v)
			return true
		}
	} else {
		fits = m.pattern(x.Pattern)
	}
	at := spanOf(x)
	return func(f *frame) outcome {
		if how := value(f); how != normal {
			return how
		}
		if !fits(f, f.s[slot]) {
			f.m.here = at
			f.m.throw(Runtime, "%s does not fit the pattern of let", truncated(show(f.s[slot]), 100))
		}
		return normal
	}
}

// isStatement reports whether an expression is made of statements.
func isStatement(e syntax.Expr) bool {
	switch x := e.(type) {
	case *syntax.ParenExpr:
		return isStatement(x.X)
	case *syntax.BlockExpr, *syntax.MatchExpr, *syntax.CatchExpr, *syntax.RetryExpr, *syntax.IfExpr,
		*syntax.BreakExpr, *syntax.ContinueExpr, *syntax.ReturnExpr, *syntax.YieldExpr:
		return true
	}
	return false
}

func (m *compiler) ifStmt(x *syntax.IfExpr, to sink) stmt {
	cond := m.expr(x.Cond).bool()
	then := m.block(x.Then, to)
	other := put(to, unitOf)
	if x.Else != nil {
		other = m.into(x.Else, to)
	}
	return func(f *frame) outcome {
		if cond(f) {
			return then(f)
		}
		return other(f)
	}
}

// span compiles a span, which the trace shows with its duration.
func (m *compiler) span(x *syntax.SpanStmt) stmt {
	name := m.expr(x.Name).v
	body := m.block(x.Body, sink{kind: discard})
	return func(f *frame) outcome {
		if !f.m.in.tracing() {
			return body(f)
		}
		title := show(name(f))
		begin := time.Now()
		f.m.in.trace(f.m.path(), map[string]any{"kind": "span.start", "name": title})
		defer func() {
			f.m.in.trace(f.m.path(), map[string]any{"kind": "span.end", "name": title,
				"duration_ms": time.Since(begin).Milliseconds()})
		}()
		return body(f)
	}
}
