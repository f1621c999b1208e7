package eval

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

func listNatives() map[string]native {
	return map[string]native{
		"len":           func(_ *machine, a []Value) Value { return intValue(length(a[0])) },
		"is_empty":      func(_ *machine, a []Value) Value { return boolValue(length(a[0]) == 0) },
		"push":          func(m *machine, a []Value) Value { return m.push(a[0], a[1]) },
		"pop":           last,
		"concat":        concat,
		"first":         func(m *machine, a []Value) Value { return m.element(a[0], 0) },
		"last":          last,
		"get":           get,
		"contains":      contains,
		"list_contains": contains,
		"slice":         slice,
		"list_slice":    slice,
		"take":          func(m *machine, a []Value) Value { return m.sublist(a[0], 0, a[1].n) },
		"drop":          func(m *machine, a []Value) Value { return m.sublist(a[0], a[1].n, a[0].n) },
		"take_while": func(m *machine, a []Value) Value {
			return m.sublist(a[0], 0, m.indexWhere(a[0], a[1], false))
		},
		"drop_while": func(m *machine, a []Value) Value {
			return m.sublist(a[0], m.indexWhere(a[0], a[1], false), a[0].n)
		},
		"chunk": chunk,
		"range": func(m *machine, a []Value) Value { return m.rangeOf(a[0].n, a[1].n, 1) },
		"range_step": func(m *machine, a []Value) Value {
			if a[2].n == 0 {
				m.throw(Runtime, "range_step: the step is 0, so the list would be endless")
			}
			return m.rangeOf(a[0].n, a[1].n, a[2].n)
		},
		"sort": func(m *machine, a []Value) Value { return m.sorted(a[0], compare) },
		"sort_by": func(m *machine, a []Value) Value {
			return m.sorted(a[0], func(x, y Value) int {
				m.tick()
				m.share(x)
				m.share(y)
				return int(max(min(m.call(a[1], x, y).n, 1), -1))
			})
		},
		"reverse": func(m *machine, a []Value) Value {
			x := m.own(a[0])
			slices.Reverse(x.buf[:a[0].n])
			return Value{a[0].n, x}
		},
		"map": func(m *machine, a []Value) Value {
			elems := a[0].elems()
			to := m.newVector(0, len(elems))
			for i, e := range elems {
				m.share(e)
				to.buf[i] = m.call(a[1], e)
				to.used++
			}
			return Value{int64(to.used), to}
		},
		"filter": func(m *machine, a []Value) Value {
			var sharedAlias []Value
			for _, e := range a[0].elems() {
				m.share(e)
				if m.call(a[1], e).bool() {
					sharedAlias = append(sharedAlias, e)
				}
			}
			return m.list(sharedAlias)
		},
		"reduce": func(m *machine, a []Value) Value {
			// The accumulator stays where the memory count finds it.
			for _, e := range a[0].elems() {
				m.share(e)
				a[1] = m.call(a[2], a[1], e)
			}
			return a[1]
		},
		"any": func(m *machine, a []Value) Value { return boolValue(m.indexWhere(a[0], a[1], true) < a[0].n) },
		"all": func(m *machine, a []Value) Value {
			return boolValue(m.indexWhere(a[0], a[1], false) == a[0].n)
		},
		"find":        func(m *machine, a []Value) Value { return m.element(a[0], m.indexWhere(a[0], a[1], true)) },
		"count":       count,
		"count_where": count,
		"flat_map": func(m *machine, a []Value) Value {
			var all []Value
			for _, e := range a[0].elems() {
				m.share(e)
				all = m.appendShared(all, m.call(a[1], e).elems())
			}
			return m.list(all)
		},
		"flatten": func(m *machine, a []Value) Value {
			var all []Value
			for _, e := range a[0].elems() {
				all = m.appendShared(all, e.elems())
			}
			return m.list(all)
		},
		"zip": func(m *machine, a []Value) Value {
			x, y := a[0].elems(), a[1].elems()
			to := make([]Value, min(len(x), len(y)))
			m.charge(len(to) * (headerSize + 2*valueSize))
			for i := range to {
				m.tick()
				to[i] = m.newPair(x[i], y[i])
			}
			return m.list(to)
		},
		"enumerate": func(m *machine, a []Value) Value {
			x := a[0].elems()
			m.charge(len(x) * (headerSize + 2*valueSize))
			to := make([]Value, len(x))
			for i := range to {
				m.tick()
				to[i] = m.newPair(intValue(int64(i)), x[i])
			}
			return m.list(to)
		},
		"unique": func(m *machine, a []Value) Value {
			seen := m.newMapping()
			for _, e := range a[0].elems() {
				m.tick()
				m.share(e)
				seen.set(m, e, unit)
			}
			return m.list(seen.keys)
		},
		"sum": func(m *machine, a []Value) Value {
			m.spend(int(a[0].n))
			total := int64(0)
			for _, e := range a[0].elems() {
				total = m.add(total, e.n)
			}
			return intValue(total)
		},
		"sum_float":  sumFloats,
		"sum_floats": sumFloats,
	}
}

// get returns an element of a list or the value of a key of a map, as an option.
func get(m *machine, a []Value) Value {
	x, is := a[0].ref.(*mapping)
	if !is {
		return m.element(a[0], a[1].n)
	}
	v, found := x.get(a[1])
	m.share(v)
	return option(v, found)
}

// contains reports whether a text contains a part or a list an element.
func contains(m *machine, a []Value) Value {
	m.spend(int(a[0].n))
	return boolValue(containsValue(a[0], a[1]))
}

func containsValue(in, part Value) bool {
	if s, is := in.ref.(string); is {
		return strings.Contains(s, part.text())
	}
	return slices.ContainsFunc(in.elems(), func(e Value) bool { return equal(e, part) })
}

// slice returns a part of a text or of a list.
func slice(m *machine, a []Value) Value {
	if s, is := a[0].ref.(string); is {
		return m.newText(characters(s, a[1].n, a[2].n))
	}
	return m.sublist(a[0], a[1].n, a[2].n)
}

func count(m *machine, a []Value) Value {
	n := int64(0)
	for _, e := range a[0].elems() {
		m.share(e)
		n += m.call(a[1], e).n
	}
	return intValue(n)
}

func sumFloats(m *machine, a []Value) Value {
	m.spend(int(a[0].n))
	total := 0.0
	for _, e := range a[0].elems() {
		total += e.float()
	}
	return floatValue(total)
}

// length returns the number of elements, entries or characters.
func length(v Value) int64 {
	switch x := v.ref.(type) {
	case *vector:
		return v.n
	case *mapping:
		return int64(x.len())
	case string:
		return int64(utf8.RuneCountInString(x))
	case *tuple:
		return int64(len(x.elems))
	}
	return 0
}

// element returns an element of a list as an option.
func (m *machine) element(list Value, i int64) Value {
	if i < 0 || i >= list.n {
		return none
	}
	e := list.elems()[i]
	m.share(e)
	return some(e)
}

func last(m *machine, a []Value) Value { return m.element(a[0], a[0].n-1) }

// sublist returns the elements from one index up to, but not including, another. Both are clamped.
func (m *machine) sublist(list Value, from, to int64) Value {
	from, to = min(max(from, 0), list.n), min(max(to, 0), list.n)
	if from == 0 && to > 0 {
		// The shorter list can share the vector, which never changes once it is marked as shared.
		m.share(list)
		return Value{to, list.ref}
	}
	n := int(max(to-from, 0))
	x := m.newVector(n, n)
	m.spend(n >> 3)
	copy(x.buf, list.elems()[from:])
	m.shareAll(x.buf)
	return Value{int64(n), x}
}

// indexWhere returns the index of the first element for which f returns so, or the length.
func (m *machine) indexWhere(list, f Value, so bool) int64 {
	for i, e := range list.elems() {
		m.share(e)
		if m.call(f, e).bool() == so {
			return int64(i)
		}
	}
	return list.n
}

// appendShared appends elements of other lists.
func (m *machine) appendShared(to, from []Value) []Value {
	m.charge(len(from) * valueSize)
	m.spend(len(from)>>3 + 1)
	m.shareAll(from)
	return append(to, from...)
}

func (m *machine) newPair(x, y Value) Value {
	m.share(x)
	m.share(y)
	return Value{ref: &tuple{[]Value{x, y}}}
}

func concat(m *machine, a []Value) Value {
	if s, isText := a[0].ref.(string); isText {
		return m.concat(s, a[1].text())
	}
	more := a[1].elems()
	m.shareAll(more)
	m.spend(len(more) >> 3)
	x, n := a[0].ref.(*vector), int(a[0].n)
	if x.owner == m.id && x.used == n && n+len(more) <= len(x.buf) {
		copy(x.buf[n:], more)
		x.used += len(more)
		return Value{int64(x.used), x}
	}
	to := m.newVector(n+len(more), n+len(more)+n/2)
	m.spend(n >> 3)
	copy(to.buf, x.buf[:n])
	m.shareAll(to.buf[:n])
	copy(to.buf[n:], more)
	return Value{int64(to.used), to}
}

// concat joins two texts.
func (m *machine) concat(a, b string) Value {
	m.charge(len(a) + len(b) + 16)
	return textValue(a + b)
}

func chunk(m *machine, a []Value) Value {
	size := a[1].n
	if size <= 0 {
		m.throw(Runtime, "chunk: the size is %d, expected 1 or more", size)
	}
	var chunks []Value
	for from := int64(0); from < a[0].n; {
		m.tick()
		to := from + min(size, a[0].n-from)
		chunks = append(chunks, m.sublist(a[0], from, to))
		from = to
	}
	return m.list(chunks)
}

// rangeOf returns the numbers from one up to, but not including, another.
func (m *machine) rangeOf(from, to, step int64) Value {
	n := uint64(0)
	switch {
	case step > 0 && from < to:
		n = (uint64(to-from)-1)/uint64(step) + 1
	case step < 0 && from > to:
		// The negation of the smallest step overflows to itself, which is right as an unsigned number.
		n = (uint64(from-to)-1)/uint64(-step) + 1
	}
	if n > uint64(m.limits.Memory/valueSize) || n > math.MaxInt32 {
		m.throwLimit("memory", m.limits.Memory)
	}
	x := m.newVector(int(n), int(n))
	m.spend(int(n) >> 3)
	for i := range x.buf {
		x.buf[i] = intValue(from + int64(i)*step)
	}
	return Value{int64(n), x}
}

// sorted sorts in a stable way.
func (m *machine) sorted(list Value, by func(a, b Value) int) Value {
	// The comparison may fail or read the list, so a copy is sorted.
	m.charge(int(list.n) * valueSize)
	elems := slices.Clone(list.elems())
	m.spend(len(elems))
	slices.SortStableFunc(elems, func(a, b Value) int {
		m.tick()
		return by(a, b)
	})
	m.shareAll(elems)
	return m.list(elems)
}
