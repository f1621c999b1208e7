package eval

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
)

// mapping is a map in the order in which its keys were first set. owner and shared have the same
// meaning as in vector.
type mapping struct {
	ints    map[int64]int32  // positions of keys that are scalars
	texts   map[string]int32 // positions of all other keys, by their keyText
	keys    []Value
	vals    []Value
	deleted int // number of deleted entries, whose key has no ref
	owner   uint64
	shared  bool
}

func (m *machine) newMapping() *mapping {
	m.charge(headerSize * 2)
	return &mapping{owner: m.id}
}

func (x *mapping) len() int { return len(x.keys) - x.deleted }

// find returns the position of a key, or -1.
func (x *mapping) find(key Value) int {
	var at int32
	var found bool
	switch k := key.ref.(type) {
	case string:
		at, found = x.texts[k]
	case scalar:
		at, found = x.ints[scalarKey(k, key)]
	default:
		at, found = x.texts[keyText(key)]
	}
	if !found {
		return -1
	}
	return int(at)
}

func (x *mapping) get(key Value) (Value, bool) {
	at := x.find(key)
	if at < 0 {
		return Value{}, false
	}
	return x.vals[at], true
}

// set changes the mapping, which the machine must own.
func (x *mapping) set(m *machine, key, val Value) {
	if at := x.find(key); at >= 0 {
		x.vals[at] = val
		return
	}
	m.charge(entrySize)
	at := int32(len(x.keys))
	switch k := key.ref.(type) {
	case string:
		x.putText(k, at)
	case scalar:
		if x.ints == nil {
			x.ints = make(map[int64]int32)
		}
		x.ints[scalarKey(k, key)] = at
	default:
		x.putText(keyText(key), at)
	}
	x.keys, x.vals = append(x.keys, key), append(x.vals, val)
}

func (x *mapping) putText(k string, at int32) {
	if x.texts == nil {
		x.texts = make(map[string]int32)
	}
	x.texts[k] = at
}

// remove changes the mapping, which the machine must own.
func (x *mapping) remove(key Value) {
	at := x.find(key)
	if at < 0 {
		return
	}
	switch k := key.ref.(type) {
	case string:
		delete(x.texts, k)
	case scalar:
		delete(x.ints, scalarKey(k, key))
	default:
		delete(x.texts, keyText(key))
	}
	x.keys[at], x.vals[at] = Value{}, Value{}
	x.deleted++
	if x.deleted > 16 && x.deleted > len(x.keys)/2 {
		x.compact()
	}
}

// compact removes the deleted entries.
func (x *mapping) compact() {
	moved := make([]int32, len(x.keys))
	n := int32(0)
	for i, k := range x.keys {
		if k.ref != nil {
			x.keys[n], x.vals[n], moved[i] = k, x.vals[i], n
			n++
		}
	}
	clear(x.keys[n:])
	clear(x.vals[n:])
	x.keys, x.vals, x.deleted = x.keys[:n], x.vals[:n], 0
	for k, at := range x.ints {
		x.ints[k] = moved[at]
	}
	for k, at := range x.texts {
		x.texts[k] = moved[at]
	}
}

// all returns the entries in their order.
func (x *mapping) all() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for i, k := range x.keys {
			if k.ref != nil && !yield(k, x.vals[i]) {
				return
			}
		}
	}
}

func (x *mapping) equal(y *mapping, depth int) bool {
	if x.len() != y.len() {
		return false
	}
	for k, v := range x.all() {
		if w, found := y.get(k); !found || !equalAt(v, w, depth) {
			return false
		}
	}
	return true
}

// ownMapping returns a mapping with the same entries that may be changed.
func (m *machine) ownMapping(v Value) *mapping {
	x := v.ref.(*mapping)
	if x.owner == m.id && !x.shared {
		return x
	}
	m.charge(2*headerSize + entrySize*len(x.keys))
	mine := &mapping{
		ints: maps.Clone(x.ints), texts: maps.Clone(x.texts),
		keys: slices.Clone(x.keys), vals: slices.Clone(x.vals), deleted: x.deleted, owner: m.id,
	}
	m.shareAll(mine.keys)
	m.shareAll(mine.vals)
	return mine
}

// scalarKey returns the key of a scalar. All NaN are one key, and so are 0.0 and -0.0.
func scalarKey(k scalar, v Value) int64 {
	if k == floatKind {
		switch f := v.float(); {
		case f == 0:
			return 0
		case f != f:
			return int64(math.Float64bits(math.NaN()))
		}
	}
	return v.n
}

// keyText returns a text that is the same for equal values of one type, and only for those.
func keyText(v Value) string { return string(appendKey(nil, v, 0)) }

func appendKey(to []byte, v Value, depth int) []byte {
	list := func(elems []Value) []byte {
		to = strconv.AppendInt(to, int64(len(elems)), 10)
		to = append(to, '(')
		depth = nested(depth)
		for _, e := range elems {
			to = appendKey(to, e, depth)
		}
		return to
	}
	switch x := v.ref.(type) {
	case string:
		to = strconv.AppendInt(to, int64(len(x)), 10)
		to = append(to, ':')
		return append(to, x...)
	case scalar:
		to = strconv.AppendInt(to, scalarKey(x, v), 10)
		return append(to, ';')
	case *vector:
		return list(x.buf[:v.n])
	case *tuple:
		return list(x.elems)
	case *record:
		return list(x.fields)
	case *variant:
		to = strconv.AppendInt(to, int64(x.kind.tag), 10)
		to = append(to, '.')
		return list(x.elems)
	case *mapping:
		// Equal maps may differ in their order.
		var entries []string
		for k, e := range x.all() {
			entry := append(appendKey(nil, k, nested(depth)), '=')
			entries = append(entries, string(appendKey(entry, e, nested(depth))))
		}
		slices.Sort(entries)
		to = strconv.AppendInt(to, int64(len(entries)), 10)
		to = append(to, '{')
		for _, e := range entries {
			to = append(to, e...)
		}
		return to
	case *Handle:
		to = strconv.AppendUint(to, x.number, 10)
		return append(to, '#')
	}
	return append(to, '?')
}
