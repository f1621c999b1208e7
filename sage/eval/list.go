package eval

// vector holds the elements of lists. Of buf only the first used elements are
// there; those that a list can see are never changed once another list, or
// another agent, may see them too:
//
//   - owner is the machine that made it; for all others it cannot be changed.
//   - shared is set by the owner as soon as a second variable, element or
//     field may refer to it. Only a vector that is not shared is written to
//     in place; a shared one is copied first.
//   - Appending is always possible behind the last used element, since no
//     list sees that far. So a list that grows in a loop, or along a
//     recursion, is not copied each time.
//
// buf itself is never replaced, as other machines may be reading it.
type vector struct {
	buf    []Value
	used   int
	owner  uint64
	shared bool
}

// sizes of values as they are counted against the limit of memory, in bytes
const (
	valueSize  = 24
	headerSize = 48
	entrySize  = 2*valueSize + 40
)

func (m *machine) newVector(n, capacity int) *vector {
	m.charge(headerSize + valueSize*capacity)
	return &vector{buf: make([]Value, capacity), used: n, owner: m.id}
}

// list is a list of new elements, which it takes over.
func (m *machine) list(elems []Value) Value {
	m.charge(headerSize + valueSize*cap(elems))
	return Value{int64(len(elems)), &vector{buf: elems[:cap(elems)], used: len(elems), owner: m.id}}
}

// elems are the elements of a list. They must not be changed.
func (v Value) elems() []Value { return v.ref.(*vector).buf[:v.n] }

// push appends to a list.
func (m *machine) push(list, elem Value) Value {
	x, n := list.ref.(*vector), int(list.n)
	if x.owner == m.id {
		if x.used > n && !x.shared {
			clear(x.buf[n:x.used])
			x.used = n
		}
		if x.used == n && n < len(x.buf) {
			x.buf[n] = elem
			x.used++
			return Value{int64(n + 1), x}
		}
	}
	grown := m.newVector(n+1, max(4, n+n/2+1))
	copy(grown.buf, x.buf[:n])
	if x.owner != m.id || x.shared {
		m.shareAll(grown.buf[:n])
	}
	grown.buf[n] = elem
	return Value{int64(n + 1), grown}
}

// own returns a vector with the elements of the list that may be written to.
func (m *machine) own(list Value) *vector {
	x, n := list.ref.(*vector), int(list.n)
	if x.owner == m.id && !x.shared {
		return x
	}
	mine := m.newVector(n, n)
	copy(mine.buf, x.buf[:n])
	m.shareAll(mine.buf)
	return mine
}

// share notes that from now on more than one place refers to the value.
func (m *machine) share(v Value) {
	switch x := v.ref.(type) {
	case *vector:
		if x.owner == m.id {
			x.shared = true
		}
	case *mapping:
		if x.owner == m.id {
			x.shared = true
		}
	case *record:
		if x.owner == m.id {
			x.shared = true
		}
	}
	// Tuples and variants are never written to in place, and what is taken out
	// of them is shared then.
}

func (m *machine) shareAll(vs []Value) {
	for _, v := range vs {
		if _, soleExpr := v.ref.(scalar); !soleExpr {
			m.share(v)
		}
	}
}

// ownRecord returns a record with the same fields that may be written to.
func (m *machine) ownRecord(v Value) *record {
	x := v.ref.(*record)
	if x.owner == m.id && !x.shared {
		return x
	}
	m.charge(headerSize + valueSize*len(x.fields))
	mine := &record{kind: x.kind, fields: append([]Value(nil), x.fields...), owner: m.id}
	m.shareAll(mine.fields)
	return mine
}
