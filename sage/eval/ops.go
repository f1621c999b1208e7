package eval

import (
	"fmt"
	"math"

	"github.com/coppice-dev/coppice/sage/source"
	"github.com/coppice-dev/coppice/sage/syntax"
)

func (m *compiler) unary(x *syntax.UnaryExpr) code {
	c, at := m.expr(x.X), spanOf(x)
	switch {
	case x.Op == syntax.Not:
		b := c.bool()
		return boolCode(func(f *frame) bool { return !b(f) }).withCalls(c.calls)
	case c.f != nil:
		n := c.f
		return floatCode(func(f *frame) float64 { return -n(f) }).withCalls(c.calls)
	}
	i := c.int()
	return intCode(func(f *frame) int64 {
		n := i(f)
		if n == -n && n != 0 {
			f.m.here = at
		}
		return f.m.sub(0, n)
	}).withCalls(c.calls)
}

func (m *compiler) binary(x *syntax.BinaryExpr) code {
	switch x.Op {
	case syntax.AndAnd:
		a, b := m.expr(x.X), m.expr(x.Y)
		l, r := a.bool(), b.bool()
		return boolCode(func(f *frame) bool { return l(f) && r(f) }).withCalls(a.calls || b.calls)
	case syntax.OrOr:
		a, b := m.expr(x.X), m.expr(x.Y)
		l, r := a.bool(), b.bool()
		return boolCode(func(f *frame) bool { return l(f) || r(f) }).withCalls(a.calls || b.calls)
	}
	return m.operation(x.Op, m.expr(x.X), m.expr(x.Y), spanOf(x))
}

// operation compiles an operator with two operands of one type.
func (m *compiler) operation(op syntax.Kind, a, b code, at *source.Span) code {
	calls := a.calls || b.calls
	prepare, ready := m.spilled(a, b)
	a, b = ready[0], ready[1]
	var c code
	switch op {
	case syntax.Equal, syntax.NotEqual:
		c = equality(a, b, op == syntax.NotEqual)
	case syntax.Less, syntax.LessEqual, syntax.Greater, syntax.GreaterEqual:
		c = ordering(op, a, b)
	case syntax.Concat:
		c = m.joined(joinable(a, b), joinable(b, a), at)
	default:
		switch {
		case a.f != nil && b.f != nil:
			c = floatOperation(op, a.f, b.f)
		case a.t != nil && b.t != nil:
			c = m.joined(a, b, at)
		default:
			c = intOperation(op, a, b, at)
		}
	}
	return after(prepare, c.withCalls(calls))
}

// joinable converts one side of ++: an error that is joined to text becomes its message.
func joinable(c, other code) code {
	if c.t != nil || other.t == nil {
		return c
	}
	v := c.v
	return textCode(func(f *frame) string { return messageOf(v(f)) }).withCalls(c.calls)
}

// messageOf returns the message of an error or the text of any other value.
func messageOf(v Value) string {
	if r, is := v.ref.(*record); is && r.kind == errorRecord {
		return r.fields[0].text()
	}
	return show(v)
}

// joined compiles a ++ b for texts and lists.
func (m *compiler) joined(a, b code, at *source.Span) code {
	if a.t != nil && b.t != nil {
		l, r := a.t, b.t
		return textCode(func(f *frame) string {
			x := l(f)
			y := r(f)
			f.m.here = at
			f.m.charge(len(x) + len(y) + 16)
			return x + y
		})
	}
	l, r := a.v, b.v
	return code{local: -1, v: func(f *frame) Value {
		args := [2]Value{l(f), r(f)}
		f.m.share(args[0])
		f.m.here = at
		return concat(f.m, args[:])
	}}
}

func equality(a, b code, not bool) code {
	switch {
	case a.i != nil && b.i != nil:
		l, r := a.i, b.i
		if b.constant {
			n := r(nil)
			if not {
				return boolCode(func(f *frame) bool { return l(f) != n })
			}
			return boolCode(func(f *frame) bool { return l(f) == n })
		}
		if not {
			return boolCode(func(f *frame) bool { return l(f) != r(f) })
		}
		return boolCode(func(f *frame) bool { return l(f) == r(f) })
	case a.t != nil && b.t != nil:
		l, r := a.t, b.t
		return boolCode(func(f *frame) bool { return (l(f) == r(f)) != not })
	case a.f != nil && b.f != nil:
		l, r := a.f, b.f
		return boolCode(func(f *frame) bool { return (l(f) == r(f)) != not })
	}
	l, r := a.v, b.v
	return boolCode(func(f *frame) bool { return equal(l(f), r(f)) != not })
}

func ordering(op syntax.Kind, a, b code) code {
	switch {
	case a.i != nil && b.i != nil && b.constant:
		return orderingToConstant(op, a, b.i(nil))
	case a.i != nil && b.i != nil:
		x, y := a.local, b.local
		switch {
		case op == syntax.Less && x >= 0 && y >= 0:
			return boolCode(func(f *frame) bool { return f.s[x].n < f.s[y].n })
		case op == syntax.LessEqual && x >= 0 && y >= 0:
			return boolCode(func(f *frame) bool { return f.s[x].n <= f.s[y].n })
		}
		return orderingOf(op, a.i, b.i)
	case a.f != nil && b.f != nil:
		return orderingOf(op, a.f, b.f)
	}
	l, r := a.v, b.v
	switch op {
	case syntax.Less:
		return boolCode(func(f *frame) bool { return compare(l(f), r(f)) < 0 })
	case syntax.LessEqual:
		return boolCode(func(f *frame) bool { return compare(l(f), r(f)) <= 0 })
	case syntax.Greater:
		return boolCode(func(f *frame) bool { return compare(l(f), r(f)) > 0 })
	}
	return boolCode(func(f *frame) bool { return compare(l(f), r(f)) >= 0 })
}

func orderingOf[T int64 | float64](op syntax.Kind, l, r func(*frame) T) code {
	switch op {
	case syntax.Less:
		return boolCode(func(f *frame) bool { return l(f) < r(f) })
	case syntax.LessEqual:
		return boolCode(func(f *frame) bool { return l(f) <= r(f) })
	case syntax.Greater:
		return boolCode(func(f *frame) bool { return l(f) > r(f) })
	}
	return boolCode(func(f *frame) bool { return l(f) >= r(f) })
}

func orderingToConstant(op syntax.Kind, a code, n int64) code {
	l, slot := a.i, a.local
	switch {
	case op == syntax.Less && slot >= 0:
		return boolCode(func(f *frame) bool { return f.s[slot].n < n })
	case op == syntax.LessEqual && slot >= 0:
		return boolCode(func(f *frame) bool { return f.s[slot].n <= n })
	case op == syntax.Less:
		return boolCode(func(f *frame) bool { return l(f) < n })
	case op == syntax.LessEqual:
		return boolCode(func(f *frame) bool { return l(f) <= n })
	case op == syntax.Greater:
		return boolCode(func(f *frame) bool { return l(f) > n })
	}
	return boolCode(func(f *frame) bool { return l(f) >= n })
}

func floatOperation(op syntax.Kind, l, r func(*frame) float64) code {
	switch op {
	case syntax.Add:
		return floatCode(func(f *frame) float64 { return l(f) + r(f) })
	case syntax.Sub:
		return floatCode(func(f *frame) float64 { return l(f) - r(f) })
	case syntax.Mul:
		// The conversion keeps the product from being fused with a sum.
		return floatCode(func(f *frame) float64 { return float64(l(f) * r(f)) })
	case syntax.Div:
		return floatCode(func(f *frame) float64 { return l(f) / r(f) })
	}
	return floatCode(func(f *frame) float64 { return math.Mod(l(f), r(f)) })
}

func intOperation(op syntax.Kind, a, b code, at *source.Span) code {
	l, r := a.int(), b.int()
	switch op {
	case syntax.Add:
		return intCode(adding(a, b, at))
	case syntax.Sub:
		return intCode(subtracting(a, b, at))
	case syntax.Mul:
		return intCode(func(f *frame) int64 {
			x := l(f)
			y := r(f)
			if z := x * y; int64(int32(x)) == x && int64(int32(y)) == y {
				return z
			}
			f.m.here = at
			return f.m.mul(x, y)
		})
	case syntax.Div:
		if b.constant {
			if n := r(nil); n > 0 {
				return intCode(func(f *frame) int64 { return l(f) / n })
			}
		}
		return intCode(func(f *frame) int64 {
			x := l(f)
			y := r(f)
			if y > 0 {
				return x / y
			}
			f.m.here = at
			return f.m.div(x, y)
		})
	case syntax.Rem:
		if b.constant {
			if n := r(nil); n > 0 {
				return intCode(func(f *frame) int64 { return l(f) % n })
			}
		}
		return intCode(func(f *frame) int64 {
			x := l(f)
			y := r(f)
			if y > 0 {
				return x % y
			}
			f.m.here = at
			return f.m.rem(x, y)
		})
	}
	panic(fmt.Sprintf("the operator %v cannot be compiled", op))
}

func adding(a, b code, at *source.Span) func(*frame) int64 {
	l, r := a.int(), b.int()
	fail := func(f *frame, x, y int64) int64 {
		f.m.here = at
		return f.m.add(x, y)
	}
	switch {
	case a.local >= 0 && b.constant:
		slot, n := a.local, r(nil)
		return func(f *frame) int64 {
			x := f.s[slot].n
			if z := x + n; (z > x) == (n > 0) {
				return z
			}
			return fail(f, x, n)
		}
	case a.local >= 0 && b.local >= 0:
		i, j := a.local, b.local
		return func(f *frame) int64 {
			x, y := f.s[i].n, f.s[j].n
			if z := x + y; (z > x) == (y > 0) {
				return z
			}
			return fail(f, x, y)
		}
	}
	return func(f *frame) int64 {
		x := l(f)
		y := r(f)
		if z := x + y; (z > x) == (y > 0) {
			return z
		}
		return fail(f, x, y)
	}
}

func subtracting(a, b code, at *source.Span) func(*frame) int64 {
	l, r := a.int(), b.int()
	fail := func(f *frame, x, y int64) int64 {
		f.m.here = at
		return f.m.sub(x, y)
	}
	if a.local >= 0 && b.constant {
		slot, n := a.local, r(nil)
		return func(f *frame) int64 {
			x := f.s[slot].n
			if z := x - n; (z < x) == (n > 0) {
				return z
			}
			return fail(f, x, n)
		}
	}
	return func(f *frame) int64 {
		x := l(f)
		y := r(f)
		if z := x - y; (z < x) == (y > 0) {
			return z
		}
		return fail(f, x, y)
	}
}
