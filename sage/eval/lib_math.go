package eval

import (
	"math"
	"math/bits"
)

// Bounds of floats that fit an Int: intBottom <= f < intTop.
const (
	intTop    = 1 << 63
	intBottom = -1 << 63
)

func mathNatives() map[string]native {
	float := func(f func(float64) float64) native {
		return func(_ *machine, a []Value) Value { return floatValue(f(a[0].float())) }
	}
	toInt := func(f func(float64) float64) native {
		return func(m *machine, a []Value) Value { return intValue(m.whole(f(a[0].float()))) }
	}
	return map[string]native{
		"abs":         func(m *machine, a []Value) Value { return m.abs(a[0]) },
		"abs_float":   float(math.Abs),
		"min":         func(_ *machine, a []Value) Value { return minValue(a[0], a[1]) },
		"max":         func(_ *machine, a []Value) Value { return maxValue(a[0], a[1]) },
		"min_float":   func(_ *machine, a []Value) Value { return minValue(a[0], a[1]) },
		"max_float":   func(_ *machine, a []Value) Value { return maxValue(a[0], a[1]) },
		"clamp":       func(m *machine, a []Value) Value { return m.clamp(a) },
		"clamp_float": func(m *machine, a []Value) Value { return m.clamp(a) },
		"floor":       toInt(math.Floor),
		"ceil":        toInt(math.Ceil),
		"round":       toInt(math.Round),
		"floor_float": float(math.Floor),
		"ceil_float":  float(math.Ceil),
		"pow":         func(m *machine, a []Value) Value { return intValue(m.pow(a[0].n, a[1].n)) },
		"pow_float":   func(_ *machine, a []Value) Value { return floatValue(math.Pow(a[0].float(), a[1].float())) },
		"sqrt":        float(math.Sqrt),
		"log":         float(math.Log),
		"log2":        float(math.Log2),
		"log10":       float(math.Log10),

		"int_to_float": func(_ *machine, a []Value) Value { return floatValue(float64(a[0].n)) },
		"float_to_int": toInt(math.Trunc),
	}
}

// whole converts a float without a fraction to an Int.
func (m *machine) whole(f float64) int64 {
	if !(f >= intBottom && f < intTop) {
		m.throw(Runtime, "%s does not fit an Int", appendFloat(nil, f))
	}
	return int64(f)
}

func (m *machine) abs(v Value) Value {
	if v.ref == floatKind {
		return floatValue(math.Abs(v.float()))
	}
	if v.n < 0 {
		return intValue(m.sub(0, v.n))
	}
	return v
}

func minValue(a, b Value) Value {
	if compare(b, a) < 0 {
		return b
	}
	return a
}

func maxValue(a, b Value) Value {
	if compare(b, a) > 0 {
		return b
	}
	return a
}

func (m *machine) clamp(a []Value) Value {
	if compare(a[1], a[2]) > 0 {
		m.throw(Runtime, "clamp: the lower bound %s is above the upper one, %s", show(a[1]), show(a[2]))
	}
	return minValue(maxValue(a[0], a[1]), a[2])
}

func (m *machine) add(a, b int64) int64 {
	c := a + b
	if (c > a) != (b > 0) {
		m.overflow(a, "+", b)
	}
	return c
}

func (m *machine) sub(a, b int64) int64 {
	c := a - b
	if (c < a) != (b > 0) {
		m.overflow(a, "-", b)
	}
	return c
}

func (m *machine) mul(a, b int64) int64 {
	c := a * b
	if a|b > math.MaxInt32 || a|b < 0 {
		if a != 0 && (c/a != b || a == -1 && b == math.MinInt64) {
			m.overflow(a, "*", b)
		}
	}
	return c
}

func (m *machine) div(a, b int64) int64 {
	if b == 0 {
		m.throw(Runtime, "division of %d by zero", a)
	}
	if b == -1 && a == math.MinInt64 {
		m.overflow(a, "/", b)
	}
	return a / b
}

func (m *machine) rem(a, b int64) int64 {
	if b == 0 {
		m.throw(Runtime, "remainder of %d divided by zero", a)
	}
	return a % b
}

func (m *machine) overflow(a int64, op string, b int64) {
	m.throw(Runtime, "%d %s %d does not fit an Int, which has 64 bits", a, op, b)
}

// pow raises an Int to a power that is not negative.
func (m *machine) pow(base, exponent int64) int64 {
	if exponent < 0 {
		m.throw(Runtime, "pow: the exponent is %d, expected 0 or more; pow_float takes any", exponent)
	}
	if base == 0 || base == 1 {
		if exponent == 0 {
			return 1
		}
		return base
	}
	if base == -1 {
		return 1 - 2*(exponent&1)
	}
	if exponent > 63 {
		m.overflow(base, "to the power of", exponent)
	}
	result := int64(1)
	for i := bits.Len64(uint64(exponent)) - 1; i >= 0; i-- {
		result = m.mul(result, result)
		if exponent>>i&1 == 1 {
			result = m.mul(result, base)
		}
	}
	return result
}
