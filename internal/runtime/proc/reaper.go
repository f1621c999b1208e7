package proc

import "sync"

// Reaper collects the children of this program that it did not start: a
// subreaper is given the orphans among its descendants, and has to. Processes
// that are started with it (Command.Reaper) are left to those who wait for
// them. The zero value is ready to use.
type Reaper struct {
	mu  sync.Mutex
	own map[int]struct{}

	hidden bool // one of our own may hide a stranger that has ended
}

// fork runs f, which makes a child. Until its pid is noted nothing is
// collected: it may have ended already.
func (r *Reaper) fork(f func() (pid int, err error)) (int, error) {
	if r == nil {
		return f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := f()
	if err == nil {
		if r.own == nil {
			r.own = make(map[int]struct{})
		}
		r.own[pid] = struct{}{}
	}
	return pid, err
}

// reap runs f, which collects the child and so frees its pid for a stranger.
func (r *Reaper) reap(pid int, f func()) {
	if r == nil {
		f()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	delete(r.own, pid)
	if r.hidden {
		r.collect()
	}
}
