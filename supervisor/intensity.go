package supervisor

import "time"

// window holds the times that a limit counts: at most Limit.Max of them, in a ring
// that grows as needed. Each operation is O(1), and memory is bounded by Max.
// With Within == 0 the times do not matter and only their number is kept.
type window struct {
	times   []time.Duration
	head, n int
}

// add adds one at time now.
func (w *window) add(now time.Duration, l Limit) {
	switch {
	case l.Max <= 0:
		return
	case l.Within == 0:
		w.n = min(w.n+1, l.Max)
		return
	}
	w.prune(now, l)
	if w.n == l.Max { // after starts that no limit holds, such as StartChild's
		w.drop()
	}
	if w.n == len(w.times) {
		grown := make([]time.Duration, min(max(4, 2*w.n), l.Max))
		for i := range w.n {
			grown[i] = w.times[(w.head+i)%len(w.times)]
		}
		w.times, w.head = grown, 0
	}
	w.times[(w.head+w.n)%len(w.times)] = now
	w.n++
}

// takeBack removes what was added last.
func (w *window) takeBack(now time.Duration, l Limit) {
	w.prune(now, l)
	w.n = max(0, w.n-1)
}

// fill fills the window at time now.
func (w *window) fill(now time.Duration, l Limit) {
	if l.Within == 0 {
		w.n = max(0, l.Max)
		return
	}
	for w.count(now, l) < l.Max {
		w.add(now, l)
	}
}

// count returns how many are in the window at time now.
func (w *window) count(now time.Duration, l Limit) int {
	w.prune(now, l)
	return w.n
}

// room returns the first time at which count is below Max; the window is full.
func (w *window) room(l Limit) time.Duration {
	return w.times[w.head] + l.Within + 1
}

// clear forgets everything.
func (w *window) clear() { *w = window{} }

// prune drops what has left the window. Its edge is included: something
// exactly Within old still counts, as in OTP.
func (w *window) prune(now time.Duration, l Limit) {
	if l.Within == 0 {
		return
	}
	for w.n > 0 && now-w.times[w.head] > l.Within {
		w.drop()
	}
}

func (w *window) drop() {
	w.head = (w.head + 1) % len(w.times)
	w.n--
}
