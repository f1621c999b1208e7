package eval

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// Value is a value of a program. Its ref tells the kind: a scalar means that n is the value,
// anything else is a reference. For a list n is the length, so that several lists can share one
// vector.
type Value struct {
	n   int64
	ref any // scalar, string, *vector, *mapping, *record, *tuple, *variant, *closure, *Handle or *cell
}

// scalar is the kind of a value without a reference.
type scalar uint8

const (
	_ scalar = iota
	unitKind
	intKind
	floatKind
	boolKind
)

// unit is the only value of Unit.
var unit = Value{ref: unitKind}

func intValue(n int64) Value     { return Value{n, intKind} }
func floatValue(f float64) Value { return Value{int64(math.Float64bits(f)), floatKind} }
func boolValue(b bool) Value {
	if b {
		return Value{1, boolKind}
	}
	return Value{0, boolKind}
}
func textValue(s string) Value { return Value{ref: s} }

func (v Value) float() float64 { return math.Float64frombits(uint64(v.n)) }
func (v Value) bool() bool     { return v.n != 0 }
func (v Value) text() string   { return v.ref.(string) }

// record is a value of a record type. owner and shared have the same meaning as in vector.
type record struct {
	kind   *recordKind
	fields []Value
	owner  uint64
	shared bool
}

// recordKind describes all records of a type.
type recordKind struct {
	name   string
	fields []string
}

// tuple has at least two elements.
type tuple struct{ elems []Value }

// variant is a value of an enum, including Option and Result. It never changes.
type variant struct {
	kind  *variantKind
	elems []Value
}

// variantKind describes one variant of an enum.
type variantKind struct {
	name  string
	tag   int
	arity int
	bare  Value // the value, if the variant carries none
}

func newVariantKind(name string, tag, arity int) *variantKind {
	k := &variantKind{name: name, tag: tag, arity: arity}
	k.bare = Value{int64(tag), &variant{kind: k}}
	return k
}

// The variants that the language itself has. They never change.
var (
	someKind = newVariantKind("Some", 0, 1)
	noneKind = newVariantKind("None", 1, 0)
	okKind   = newVariantKind("Ok", 0, 1)
	errKind  = newVariantKind("Err", 1, 1)
)

var none = noneKind.bare

// oneVariant is a variant that carries one value, in a single allocation.
type oneVariant struct {
	variant
	elem [1]Value
}

func newVariant(k *variantKind, elem Value) Value {
	o := &oneVariant{elem: [1]Value{elem}}
	o.kind, o.elems = k, o.elem[:]
	return Value{int64(k.tag), &o.variant}
}

func some(v Value) Value      { return newVariant(someKind, v) }
func okResult(v Value) Value  { return newVariant(okKind, v) }
func errResult(v Value) Value { return newVariant(errKind, v) }

// option returns Some(v) or None.
func option(v Value, found bool) Value {
	if found {
		return some(v)
	}
	return none
}

// payload returns the first value of a variant.
func (v Value) payload() Value { return v.ref.(*variant).elems[0] }

// maxNesting bounds the depth of values that are compared, used as keys or written. A linked list
// of variants can be that deep.
const maxNesting = 100_000

func nested(depth int) int {
	if depth > maxNesting {
		panic(&thrown{&Error{Kind: Runtime, Message: "the values are nested too deeply to be compared or written"}})
	}
	return depth + 1
}

// equal compares two values of one type. Functions and handles are equal only to themselves.
func equal(a, b Value) bool { return equalAt(a, b, 0) }

func equalAt(a, b Value, depth int) bool {
	switch x := a.ref.(type) {
	case scalar:
		if x == floatKind {
			return a.float() == b.float()
		}
		return a.n == b.n
	case string:
		y, same := b.ref.(string)
		return same && x == y
	case *vector:
		y, same := b.ref.(*vector)
		return same && a.n == b.n && (x == y || equalAll(depth, x.buf[:a.n], y.buf[:b.n]))
	case *mapping:
		y, same := b.ref.(*mapping)
		return same && x.equal(y, nested(depth))
	case *record:
		y, same := b.ref.(*record)
		return same && (x == y || equalAll(depth, x.fields, y.fields))
	case *tuple:
		y, same := b.ref.(*tuple)
		return same && equalAll(depth, x.elems, y.elems)
	case *variant:
		y, same := b.ref.(*variant)
		return same && x.kind.tag == y.kind.tag && equalAll(depth, x.elems, y.elems)
	}
	return a.ref == b.ref
}

func equalAll(depth int, a, b []Value) bool {
	depth = nested(depth)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalAt(a[i], b[i], depth) {
			return false
		}
	}
	return true
}

// compare orders values of one type: numbers by size, texts by bytes, false before true, all
// others by their parts from left to right. NaN comes before all numbers.
func compare(a, b Value) int { return compareAt(a, b, 0) }

func compareAt(a, b Value, depth int) int {
	switch x := a.ref.(type) {
	case scalar:
		if x == floatKind {
			return cmp.Compare(a.float(), b.float())
		}
		return cmp.Compare(a.n, b.n)
	case string:
		return strings.Compare(x, b.ref.(string))
	case *vector:
		return compareAll(depth, x.buf[:a.n], b.ref.(*vector).buf[:b.n])
	case *tuple:
		return compareAll(depth, x.elems, b.ref.(*tuple).elems)
	case *record:
		return compareAll(depth, x.fields, b.ref.(*record).fields)
	case *variant:
		y := b.ref.(*variant)
		if x.kind.tag != y.kind.tag {
			return cmp.Compare(x.kind.tag, y.kind.tag)
		}
		return compareAll(depth, x.elems, y.elems)
	}
	return 0
}

func compareAll(depth int, a, b []Value) int {
	depth = nested(depth)
	for i := range min(len(a), len(b)) {
		if c := compareAt(a[i], b[i], depth); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// show returns a value as str and interpolation write it. Texts inside of other values are quoted.
func show(v Value) string {
	switch x := v.ref.(type) {
	case string:
		return x
	case scalar:
		switch x {
		case intKind:
			return strconv.FormatInt(v.n, 10)
		case boolKind:
			return strconv.FormatBool(v.bool())
		}
	}
	return string(appendShown(nil, v, 0))
}

// maxShown bounds the depth of values that are written as text.
const maxShown = 100

func appendShown(to []byte, v Value, depth int) []byte {
	if depth > maxShown {
		return append(to, "..."...)
	}
	list := func(open, end byte, elems []Value) []byte {
		to := appendEach(append(to, open), ", ", elems, func(to []byte, _ int, e Value) []byte {
			return appendShown(to, e, depth+1)
		})
		return append(to, end)
	}
	switch x := v.ref.(type) {
	case scalar:
		switch x {
		case intKind:
			return strconv.AppendInt(to, v.n, 10)
		case floatKind:
			return appendFloat(to, v.float())
		case boolKind:
			return strconv.AppendBool(to, v.bool())
		}
		return append(to, "()"...)
	case string:
		if depth == 0 {
			return append(to, x...)
		}
		return strconv.AppendQuote(to, x)
	case *vector:
		return list('[', ']', x.buf[:v.n])
	case *tuple:
		return list('(', ')', x.elems)
	case *mapping:
		to = append(to, '{')
		first := true
		for k, e := range x.all() {
			if !first {
				to = append(to, ", "...)
			}
			first = false
			to = appendShown(to, k, depth+1)
			to = append(to, ": "...)
			to = appendShown(to, e, depth+1)
		}
		return append(to, '}')
	case *record:
		to = append(to, x.kind.name...)
		to = append(to, " { "...)
		to = appendEach(to, ", ", x.fields, func(to []byte, i int, f Value) []byte {
			to = append(to, x.kind.fields[i]...)
			return appendShown(append(to, ": "...), f, depth+1)
		})
		return append(to, " }"...)
	case *variant:
		to = append(to, x.kind.name...)
		if len(x.elems) > 0 {
			return list('(', ')', x.elems)
		}
		return to
	case *closure:
		return append(to, "<function>"...)
	case *Handle:
		return append(append(append(to, "<agent "...), x.path...), '>')
	}
	return append(to, "<value>"...)
}

// appendFloat appends a float in a form that differs from an Int.
func appendFloat(to []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(to, "NaN"...)
	case math.IsInf(f, 1):
		return append(to, "inf"...)
	case math.IsInf(f, -1):
		return append(to, "-inf"...)
	}
	from := len(to)
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	to = strconv.AppendFloat(to, f, format, -1, 64)
	if !strings.ContainsAny(string(to[from:]), ".e") {
		to = append(to, ".0"...)
	}
	return to
}
