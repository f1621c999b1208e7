package supervisor

import (
	"strings"
	"sync"
	"time"
)

// retained holds the state of children that outlives their nested supervisors,
// however often these are restarted: the number, a suspension, and the counts of a
// limit of the child's own that quarantines or gives up. It also remembers the
// children that had ended for good when a supervisor was suspended. There is one
// for each tree.
type retained struct {
	mu         sync.Mutex
	byPath     map[string]retainedChild
	suspending map[string]bool // supervisors that are being stopped with ReasonSuspended
}

type retainedChild struct {
	gen       uint64
	deleted   bool   // by DeleteChild: only the number is kept
	suspended Reason // NoReason: not suspended
	done      Reason // of a child that had ended for good when its supervisor was suspended
	counted   *Saved // counts of a limit of its own; nil if there are none
}

// ran notes that a supervisor has run.
func (k *retained) ran(path string) {
	was, _ := k.of(path)
	was.deleted = false
	k.put(path, was)
}

// put sets the state of a path.
func (k *retained) put(path string, c retainedChild) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byPath == nil {
		k.byPath = make(map[string]retainedChild)
	}
	k.byPath[path] = c
}

func (k *retained) of(path string) (retainedChild, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.byPath[path]
	return c, ok
}

// suspend notes that a supervisor is being suspended, or no longer.
func (k *retained) suspend(path string, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !on {
		delete(k.suspending, path)
		return
	}
	if k.suspending == nil {
		k.suspending = make(map[string]bool)
	}
	k.suspending[path] = true
}

// suspends reports whether a supervisor, or one above it, is being suspended.
func (k *retained) suspends(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at := range k.suspending {
		if at == path || strings.HasPrefix(path, at+"/") {
			return true
		}
	}
	return false
}

// ended notes that a child has ended for good and stays so; NoReason: no longer.
func (k *retained) ended(path string, why Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.byPath[path]; ok {
		c.done = why
		k.byPath[path] = c
	}
}

// forgotten returns the IDs of retained children that their supervisor does not
// list: they are temporary, and have ended.
func (k *retained) forgotten(path string, listed map[string]*child) (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p, c := range k.byPath {
		id, below := strings.CutPrefix(p, path+"/")
		if below && !strings.Contains(id, "/") && listed[id] == nil && !c.deleted {
			ids = append(ids, id)
		}
	}
	return ids
}

// saved returns the state with which a listed child continues: the retained one, or
// else that of its Spec. A child that was not held is started with the others.
func (k *retained) saved(path string, spec *Saved) *Saved {
	was, ok := k.of(path)
	switch {
	case !ok, was.deleted:
		return spec
	case was.counted == nil:
		return nil
	}
	s := *was.counted
	if s.State != Quarantined && s.State != GivenUp {
		s.State, s.Reason, s.NextAt = Waiting, NoReason, time.Time{}
	}
	return &s
}

// clearCounts clears the retained counts of all children below a path, for RestartChild.
func (k *retained) clearCounts(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p, c := range k.byPath {
		if strings.HasPrefix(p, path+"/") {
			c.counted = nil
			k.byPath[p] = c
		}
	}
}

// drop forgets a path and all below it, except for their numbers: the path may be
// used again, and its numbers must not.
func (k *retained) drop(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p, c := range k.byPath {
		if p == path || strings.HasPrefix(p, path+"/") {
			k.byPath[p] = retainedChild{gen: c.gen, deleted: true}
		}
	}
}

// retain retains the state of a child. Instances of a pool, and children that were added by
// StartChild, do not outlive their supervisor.
func (k *core) retain(c *child) {
	if !k.nested || !c.listed {
		return
	}
	was := retainedChild{gen: c.gen}
	if c.state == Suspended {
		was.suspended = c.reason
	}
	if l, w := k.governs(c); w != &k.win && (l.OnLimit == Quarantine || l.OnLimit == GiveUp) {
		s := k.save(c)
		was.counted = &s
	}
	k.retained.put(k.path+"/"+c.id, was)
}

// retainAll retains the states of all children when the supervisor begins to end.
func (k *core) retainAll() {
	if !k.nested {
		return
	}
	k.retained.ran(k.path)
	for c := k.head; c != nil; c = c.next {
		k.retain(c)
	}
	if !k.retained.suspends(k.path) {
		return
	}
	for c := k.head; c != nil; c = c.next {
		if c.state == Stopped && (c.reason == ReasonTransientClean || c.reason == ReasonTemporary) {
			k.retained.ended(k.path+"/"+c.id, c.reason)
		}
	}
	for _, id := range k.retained.forgotten(k.path, k.byID) {
		k.retained.ended(k.path+"/"+id, ReasonTemporary)
	}
}

// restoreRetained restores the retained state of a child that is about to be listed.
func (k *core) restoreRetained(c *child) {
	if !k.nested {
		return
	}
	was, ok := k.retained.of(k.path + "/" + c.id)
	if !ok {
		return
	}
	if was.gen > c.gen {
		c.gen = was.gen
		if c.adopts() { // an earlier one, which has ended since
			c.more.adopt, c.counted = false, false
		}
	}
	switch {
	case was.suspended != NoReason:
		k.set(c, Suspended, was.suspended)
	case was.done != NoReason:
		k.set(c, Stopped, was.done)
		k.retained.ended(k.path+"/"+c.id, NoReason) // a failure starts it again with its siblings
	}
}
