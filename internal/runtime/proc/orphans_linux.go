package proc

import (
	"fmt"
	"os"
)

// Strays lists the orphans of this program that wanted selects, with all their descendants: what
// its children have left behind. Those that have ended are left out.
func (r *Reaper) Strays(wanted func(Stray) bool) (all []Identity, err error) {
	orphans, err := r.orphans()
	if err != nil {
		return nil, fmt.Errorf("listing what was left behind: %w", err)
	}
	for _, o := range orphans {
		if !wanted(Stray{PID: o.id.PID, Mark: o.mark}) {
			continue
		}
		below, err := Descendants(o.id.PID)
		if err != nil {
			return nil, err
		}
		all = append(append(all, o.id), below...)
	}
	return all, nil
}

// orphans lists the orphans that run now. A search prevents forks meanwhile, so many children that
// end at once share one.
func (r *Reaper) orphans() ([]orphan, error) {
	l, first := r.join()
	if first {
		r.search(l)
	}
	<-l.done
	return l.found, l.err
}

// join returns the next search. The first caller has to run it.
func (r *Reaper) join() (l *look, first bool) {
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	if r.next == nil {
		r.next, first = &look{done: make(chan struct{})}, true
	}
	return r.next, first
}

func (r *Reaper) search(l *look) {
	defer close(l.done)
	r.mu.Lock() // a new child is not recorded yet, and reaping one meanwhile could hide another one
	defer r.mu.Unlock()
	r.lookMu.Lock()
	r.next = nil
	r.lookMu.Unlock()
	children, err := childFinder()
	if err != nil {
		l.err = err
		return
	}
	l.found = r.survey(func() []int { return children(os.Getpid()) })
}

// survey returns the orphans among the children that list lists. What one leaves behind that ends
// meanwhile is a child only then, and not in that list: so there is another one.
func (r *Reaper) survey(list func() []int) (found []orphan) {
	ended := endings{}
	for {
		found = found[:0]
		again := false
		for _, pid := range list() {
			if r.own[pid] {
				continue
			}
			if id, err := Identify(pid); err == nil && Observe(id) != Dead {
				found = append(found, orphan{id, ReadMark(pid)})
			} else {
				again = ended.add(pid) || again
			}
		}
		if !again {
			return found
		}
	}
}

// endings are processes that have ended during a search.
type endings map[int]bool

// add reports whether an ending is new.
func (e endings) add(pid int) bool {
	known := e[pid]
	e[pid] = true
	return !known
}
