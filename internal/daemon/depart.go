package daemon

import "time"

// holding is the part of a process that is stopped with others. Two have to ask
// it for that, in any order: its supervisor, which has to know that it is not to
// be restarted, and whoever knows whose turn it is. It is asked when the second
// of them wants it, and if that is its supervisor, that hears of its end only then.
type holding struct {
	bound    time.Duration // for how long it may be stopped with others; 0: nobody else stops it
	since    time.Time     // it was asked to depart; zero if it was not
	told     bool          // that it did not in time
	took     time.Duration // from since to the end; 0 if it has not ended
	released chan struct{} // closed when its supervisor may know of its end; nil if it may anyway
	over     bool          // there is nothing more to hold back
}

// patient is a session that can be given more time to end than it has by itself.
type patient interface{ StopWithin(time.Duration) }

// heed makes it wait for depart when its supervisor asks it to stop, which may
// take up to bound from then on; 0: no longer.
func (p *process) heed(bound time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = bound
}

// Patience is part of supervisor.Patient.
func (p *process) Patience() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound
}

// heeds reports, when its supervisor asks it to stop, whether that is all there
// is to do: it waits for its turn.
func (p *process) heeds() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bound == 0 || p.keeps() || p.asked && p.since.IsZero() {
		return false
	}
	p.holding.end()
	return true
}

// depart asks an agent to end within some time: it is its turn. Zero: it is
// killed. Nobody kills it but the caller, unless its own grace is longer.
func (p *process) depart(within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keeps() || isClosed(p.gone) {
		return
	}
	first := !p.asked
	p.asked = true
	if first {
		p.since = time.Now()
		if !p.holding.over {
			p.released = make(chan struct{})
		}
	}
	stop := p.session.Stop
	if s, ok := p.session.(patient); ok {
		stop = func() { s.StopWithin(within) }
	}
	switch {
	case within == 0:
		p.cancel(errKilled)
		p.session.Kill()
	case p.turns.rest == nil || p.ended:
		stop()
	case first:
		p.resting.Go(func() {
			p.turns.rest(p.ctx)
			stop()
		})
	}
}

// overdue returns the time since the agent was asked to depart, or which it has
// taken for that, once. It is 0 if that is less than allowed, or it was not asked.
func (p *process) overdue(allowed time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || p.told {
		return 0
	}
	took := p.took
	if took == 0 {
		took = time.Since(p.since)
	}
	if took < allowed {
		return 0
	}
	p.told = true
	return took
}

// release lets its supervisor know, whether that has asked or not.
func (p *process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = 0
	p.holding.end()
}

func (f *holding) end() {
	f.over = true
	if f.released != nil && !isClosed(f.released) {
		close(f.released)
	}
}

// awaitRelease waits until its supervisor may know of its end.
func (p *process) awaitRelease() {
	p.mu.Lock()
	released := p.released
	p.mu.Unlock()
	if released != nil {
		<-released
	}
}
