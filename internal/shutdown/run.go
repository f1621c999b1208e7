package shutdown

import "time"

// Do carries out the plan until it is over, or hurry or end is closed.
func (r *Run) Do(hurry, end <-chan struct{}) {
	defer close(r.over)
	for {
		next, over := r.step()
		if over {
			return
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-r.changed:
		case <-due:
		case <-hurry:
			return
		case <-end:
			return
		}
	}
}

// step takes the actions that are due. It returns when the next is due if nothing happens before, and
// whether the plan is over.
func (r *Run) step() (next time.Time, over bool) {
	r.mu.Lock()
	step := r.plan.Step(time.Now())
	over = r.plan.Over()
	for _, path := range step.Kill {
		r.killed[path] = true
	}
	for _, path := range append(step.Ask, step.Kill...) {
		if t := r.turns[path]; t != nil && !isClosed(t) {
			close(t)
		}
	}
	r.mu.Unlock()
	if step.Late {
		r.Late()
	}
	for _, path := range step.Kill {
		p := r.Of(path)
		if p == nil || isClosed(p.Gone()) { // its start is being canceled, which ends it
			continue
		}
		if waited := p.Overdue(0); waited > 0 {
			r.Overdue(path, max(waited, r.Allowed(path)))
			p.Kill()
		} // else it has not been asked yet: Await then returns no grace period, and it is killed
	}
	return step.Next, over
}

// watch waits until an agent has ended, or until a start has finished and the started agent has
// ended. It records that in the plan.
func (r *Run) watch(path string, done <-chan struct{}) {
	for {
		select {
		case <-done:
		case <-r.over:
			return
		}
		p := r.Of(path)
		if p == nil || isClosed(p.Gone()) {
			r.ended(path, p)
			return
		}
		done = p.Gone()
	}
}

// ended records that an agent has ended. An agent that has used up its grace period was killed by its
// shim.
func (r *Run) ended(path string, p Process) {
	if allowed := r.Allowed(path); p != nil && allowed > 0 {
		if waited := p.Overdue(allowed); waited > 0 {
			r.Overdue(path, waited)
		}
	}
	r.mu.Lock()
	r.plan.Ended(path)
	news := r.plan.HasNews()
	r.mu.Unlock()
	if news { // a step looks at all agents
		r.wake()
	}
}

// wake makes Do take the next step now.
func (r *Run) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
