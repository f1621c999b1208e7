package proc

import "sync"

// Reaper collects children that this program did not start: a subreaper is the parent of all
// orphans among its descendants and must reap them. Processes that were started with
// Command.Reaper are left to their Process. The zero value is ready to use.
type Reaper struct {
	mu  sync.Mutex
	own map[int]bool

	hidden bool // a child that was started here may hide an orphan that has ended

	lookMu sync.Mutex
	next   *look // has not begun yet; nil if nothing waits for one
}

// orphan is a child of this program that it has not started.
type orphan struct {
	id   Identity
	mark Mark
}

// look is one search for orphans. It serves all calls that came before it began.
type look struct {
	done  chan struct{}
	found []orphan
	err   error
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
			r.own = make(map[int]bool)
		}
		r.own[pid] = true
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
