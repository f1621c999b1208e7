package spec

// StopOrder determines which agents may stop next as others end. An agent may stop once no
// running agent depends on it, directly or through agents that are not part of the shutdown.
// It is not safe for concurrent use.
type StopOrder struct {
	o       *StartOrder
	pending []int    // by vertex: number of vertices that wait for it and are not done
	running []bool   // by element: whether it is an agent of this shutdown that has not ended
	free    []string // agents that may stop now
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

// Free returns the agents that may stop now and were not returned before, in reverse start
// order.
func (u *StopOrder) Free() []string {
	free := u.free
	u.free = nil
	return free
}

// HasFree reports whether Free has agents to return.
func (u *StopOrder) HasFree() bool { return len(u.free) > 0 }

// Ended records that an agent has ended, whether or not it was asked to.
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

// release marks vertices as done that no vertex waits for, and those that become free by that.
func (u *StopOrder) release(queue []int) {
	for len(queue) > 0 {
		v := queue[len(queue)-1] // the last one was started last
		queue = queue[:len(queue)-1]
		if i := v / 2; v == ready(i) && u.running[i] {
			u.free = append(u.free, u.o.paths[i])
			continue // its dependencies wait until it has ended
		}
		for _, w := range u.o.graph[v] {
			if u.pending[w]--; u.pending[w] == 0 {
				queue = append(queue, w)
			}
		}
	}
}
