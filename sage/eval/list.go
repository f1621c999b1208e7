package eval

// vector holds the elements of lists. Only the first used elements of buf are valid. An element
// never changes once another list or another agent can see it:
//
//   - owner is the machine that made the vector. No other machine may change it.
//   - shared is set by the owner as soon as a second variable, element or field may
//     refer to the vector. A shared vector is copied before a write; only one that is
//     not shared is changed in place.
//   - Appending behind the last used element is always possible, since no list sees
//     that far. So a list that grows in a loop or along a recursion is not copied each
//     time.
//
// buf itself is never replaced, as other machines may be reading it.
type vector struct {
	buf    []Value
	used   int
	owner  uint64
	shared bool
}

// Sizes in bytes that count against the memory limit.
const (
	valueSize  = 24
	headerSize = 48
	entrySize  = 2*valueSize + 40
)

func (m *machine) newVector(n, capacity int) *vector {
	m.charge(headerSize + valueSize*capacity)
	return &vector{buf: make([]Value, capacity), used: n, owner: m.id}
}

// list returns a list that takes over new elements.
func (m *machine) list(elems []Value) Value {
	m.charge(headerSize + valueSize*cap(elems))
	return Value{int64(len(elems)), &vector{buf: elems[:cap(elems)], used: len(elems), owner: m.id}}
}

// elems returns the elements of a list. They must not be changed.
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

// share marks that more than one place now refers to the value.
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
	// Tuples and variants are never changed in place, and values taken out of
	// them are marked then.
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
