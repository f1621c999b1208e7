package supervisor

import "sync"

// waiter is a call that waits for the end of a start or of a stop. Answered
// waiters are reused: there may be very many starts.
type waiter struct {
	f    func() (*child, error)
	stop bool
	info ChildInfo
	err  error
	done chan struct{} // gets one token when info and err are set
}

func (*waiter) message() {}

// begin runs the call in the loop of s. It answers at once if there is nothing to wait for.
func (w *waiter) begin(s *Supervisor) {
	c, err := w.f()
	switch {
	case err != nil || c == nil:
		w.answer(ChildInfo{}, err)
	case !w.stop && c.state == Running:
		w.answer(s.core.info(c), nil)
	default:
		s.waiters.add(c, w)
	}
}

func (w *waiter) answer(info ChildInfo, err error) {
	w.info, w.err = info, err
	w.done <- struct{}{}
}

// waiters are the calls of a supervisor that wait.
type waiters struct {
	of    map[*child][]*waiter // the loop's
	spare sync.Pool            // of waiters
}

// get returns a waiter that is not in use.
func (ws *waiters) get() *waiter {
	if w, ok := ws.spare.Get().(*waiter); ok {
		return w
	}
	return &waiter{done: make(chan struct{}, 1)}
}

// put takes an answered waiter back.
func (ws *waiters) put(w *waiter) {
	*w = waiter{done: w.done}
	ws.spare.Put(w)
}

// add lets a call wait for the start (or the stop) of c.
func (ws *waiters) add(c *child, w *waiter) { ws.of[c] = append(ws.of[c], w) }

// reply answers the calls that wait for the start (or the stop) of c.
func (ws *waiters) reply(k *core, c *child, stop bool, err error) {
	if len(ws.of) == 0 {
		return
	}
	var left []*waiter
	for _, w := range ws.of[c] {
		switch {
		case w.stop != stop:
			left = append(left, w)
		case err != nil:
			w.answer(ChildInfo{}, err)
		default:
			w.answer(k.info(c), nil)
		}
	}
	if left == nil {
		delete(ws.of, c)
	} else {
		ws.of[c] = left
	}
}
