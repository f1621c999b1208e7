package spec

// Unwinding is the order in which agents are stopped, as they end: an agent may
// be asked to stop once nothing that depends on it lives, not through agents
// that do not take part, either. It is not safe for concurrent use.
type Unwinding struct {
	o     *Order
	open  []int    // by vertex, how many of those that wait for it are not over
	lives []bool   // by element, that it is an agent that takes part and has not ended
	free  []string // that may be asked now
}

// Unwind begins to stop the agents that live.
func (o *Order) Unwind(lives func(path string) bool) *Unwinding {
	u := &Unwinding{o: o, open: make([]int, len(o.graph)), lives: make([]bool, len(o.elements))}
	for _, waits := range o.graph {
		for _, w := range waits {
			u.open[w]++
		}
	}
	for i := range u.lives {
		u.lives[i] = o.chosen(i, lives)
	}
	var over []int
	for v, n := range u.open {
		if n == 0 {
			over = append(over, v)
		}
	}
	u.settle(over)
	return u
}

// Free returns the agents that may be asked to stop and were not returned
// before, those that were started last first.
func (u *Unwinding) Free() []string {
	free := u.free
	u.free = nil
	return free
}

// Ended notes that an agent has ended, whether it was asked to or not.
func (u *Unwinding) Ended(path string) {
	i, known := u.o.index[path]
	if !known || !u.lives[i] {
		return
	}
	u.lives[i] = false
	if v := ready(i); u.open[v] == 0 {
		u.settle([]int{v})
	}
}

// settle goes on from vertices that nothing waits for any more.
func (u *Unwinding) settle(queue []int) {
	for len(queue) > 0 {
		v := queue[len(queue)-1] // what was started last is there last
		queue = queue[:len(queue)-1]
		if i := v / 2; v == ready(i) && u.lives[i] {
			u.free = append(u.free, u.o.paths[i])
			continue // until it has ended
		}
		for _, w := range u.o.graph[v] {
			if u.open[w]--; u.open[w] == 0 {
				queue = append(queue, w)
			}
		}
	}
}
