package spec

// StopOrder tells which agents may be stopped next, as others end. An agent may be
// asked to stop once no running agent depends on it, directly or through agents that
// are not part of the shutdown. It is not safe for concurrent use.
type StopOrder struct {
	o       *StartOrder
	pending []int    // by vertex: how many vertices that wait for it are not done
	running []bool   // by element: whether it is an agent of this shutdown that has not ended
	free    []string // agents that may be asked now
}

// StopOrder returns the order in which to stop the agents for which running is true.
func (o *StartOrder) StopOrder(running func(path string) bool) *StopOrder {
	u := &StopOrder{o: o, pending: make([]int, len(o.graph)), running: make([]bool, len(o.elements))}
	for _, waits := range o.graph {
		for _, w := range waits {
			u.pending[w]++
		}
	}
	for i := range u.running {
		u.running[i] = o.elements[i].agent && running(o.paths[i])
	}
	var over []int
	for v, n := range u.pending {
		if n == 0 {
			over = append(over, v)
		}
	}
	u.release(over)
	return u
}

// Free returns the agents that may be asked to stop and were not returned before,
// in the reverse of the order in which they were started.
func (u *StopOrder) Free() []string {
	free := u.free
	u.free = nil
	return free
}

// Ended notes that an agent has ended, whether it was asked to or not.
func (u *StopOrder) Ended(path string) {
	i, known := u.o.index[path]
	if !known || !u.running[i] {
		return
	}
	u.running[i] = false
	if v := ready(i); u.pending[v] == 0 {
		u.release([]int{v})
	}
}

// release continues from vertices that nothing waits for.
func (u *StopOrder) release(queue []int) {
	for len(queue) > 0 {
		v := queue[len(queue)-1] // what was started last is there last
		queue = queue[:len(queue)-1]
		if i := v / 2; v == ready(i) && u.running[i] {
			u.free = append(u.free, u.o.paths[i])
			continue // until it has ended
		}
		for _, w := range u.o.graph[v] {
			if u.pending[w]--; u.pending[w] == 0 {
				queue = append(queue, w)
			}
		}
	}
}
