package eval

// charge accounts for memory that is about to be allocated.
func (m *machine) charge(bytes int) {
	m.quota -= int64(bytes)
	if m.quota < 0 {
		m.recount(int64(bytes))
	}
}

// minQuota is the least that may be allocated between two counts.
const minQuota = 4 << 10

// recount measures the memory in use, since what was allocated after the last count may be garbage
// by now. The new quota is twice that amount, so that counting costs no more than allocating, but
// at most an eighth of what the program has left.
func (m *machine) recount(wanted int64) {
	m.quota = 0
	limit := m.limits.Memory
	if wanted > limit {
		m.throwLimit("memory", limit)
	}
	m.checkStop()
	used := m.inUse() + wanted
	if used > limit {
		m.throwLimit("memory", limit)
	}
	left := m.limits.Program - m.in.reserved.Load() + m.reserved - used
	quota := min(max(min(2*used, left/8), minQuota), max(limit-used, limit/16))
	if !m.reserve(used + quota) {
		quota = min(quota, minQuota)
		if !m.reserve(used + quota) {
			m.throwLimit("program", m.limits.Program)
		}
	}
	m.quota = quota
}

// reserve changes the share of the machine in the program's memory. It reports whether the program
// has that much.
func (m *machine) reserve(bytes int64) bool {
	more := bytes - m.reserved
	if m.in.reserved.Add(more) > m.limits.Program && more > 0 {
		m.in.reserved.Add(-more)
		return false
	}
	m.reserved = bytes
	return true
}

// inUse returns the size of all values that the machine can reach.
func (m *machine) inUse() int64 {
	c := counter{owner: m.id, seen: map[any]struct{}{}}
	for f := &m.frame; f != nil; f = f.next {
		c.add(f.s)
		c.add([]Value{f.ret})
		if f.fn != nil {
			c.add(f.fn.captured)
		}
	}
	if m.agent != nil {
		c.add(m.agent.fields)
		m.agent.box.each(func(v Value) { c.add([]Value{v}) })
	}
	return c.bytes
}

// counter adds up the size of values, counting each once.
type counter struct {
	owner uint64 // the machine that counts
	bytes int64
	seen  map[any]struct{}
	todo  [][]Value
}

// add counts values and all that they refer to. It is not recursive, as values may be nested as
// deep as memory allows.
func (c *counter) add(vs []Value) {
	c.todo = append(c.todo, vs)
	for len(c.todo) > 0 {
		vs := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		c.bytes += int64(len(vs)) * valueSize
		for _, v := range vs {
			c.value(v)
		}
	}
}

func (c *counter) value(v Value) {
	switch x := v.ref.(type) {
	case string:
		c.bytes += int64(len(x)) + 16
	case *vector:
		if !c.unseen(x) {
			return
		}
		c.bytes += headerSize
		if x.owner != c.owner {
			// Its owner may be appending to it.
			c.push(x.buf[:v.n])
			return
		}
		c.bytes += int64(len(x.buf)-x.used) * valueSize
		c.push(x.buf[:x.used])
	case *mapping:
		if c.unseen(x) {
			c.bytes += 2*headerSize + int64(len(x.keys))*(entrySize-2*valueSize)
			c.push(x.keys)
			c.push(x.vals)
		}
	case *record:
		c.parts(x, x.fields)
	case *tuple:
		c.parts(x, x.elems)
	case *variant:
		if len(x.elems) > 0 {
			c.parts(x, x.elems)
		}
	case *closure:
		c.parts(x, x.captured)
	case *cell:
		if c.unseen(x) {
			c.push([]Value{x.v})
		}
	}
}

// parts counts a value that consists of others.
func (c *counter) parts(ref any, vs []Value) {
	if c.unseen(ref) {
		c.bytes += headerSize
		c.push(vs)
	}
}

func (c *counter) push(vs []Value) {
	if len(vs) > 0 {
		c.todo = append(c.todo, vs)
	}
}

func (c *counter) unseen(ref any) bool {
	if _, seen := c.seen[ref]; seen {
		return false
	}
	c.seen[ref] = struct{}{}
	return true
}
