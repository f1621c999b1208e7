package proc

import "sync"

// Reaper collects children that this program did not start: a subreaper is the parent of all
// orphans among its descendants and must reap them. Processes that were started with
// Command.Reaper are left to their Process. The zero value is ready to use.
type Reaper struct {
	mu  sync.Mutex
	own map[int]Mark

	hidden bool // a child that was started here may hide an orphan that has ended
}

// fork runs f, which creates a child with a mark. Nothing is collected before its pid is
// recorded, since it may have ended already.
func (r *Reaper) fork(mark Mark, f func() (pid int, err error)) (int, error) {
	if r == nil {
		return f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	mark.pass()
	pid, err := f()
	if err == nil {
		if r.own == nil {
			r.own = make(map[int]Mark)
		}
		r.own[pid] = mark
	}
	return pid, err
}

// reap runs f, which collects the child and so frees its pid for an orphan.
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
