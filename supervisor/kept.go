package supervisor

import (
	"strings"
	"sync"
)

// kept is what of the children of nested supervisors outlives these: a child
// has a number and, where somebody has suspended it, stays down, however often
// the supervisor above it is restarted. There is one for each tree.
type kept struct {
	mu     sync.Mutex
	byPath map[string]keptChild
}

type keptChild struct {
	gen       uint64
	suspended bool
}

// put keeps what is known of a path.
func (k *kept) put(path string, c keptChild) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byPath == nil {
		k.byPath = make(map[string]keptChild)
	}
	k.byPath[path] = c
}

func (k *kept) of(path string) (keptChild, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.byPath[path]
	return c, ok
}

// drop forgets a path and all below it.
func (k *kept) drop(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.byPath {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(k.byPath, p)
		}
	}
}

// keep keeps what outlives this supervisor of a child. Instances of a pool, and
// what was added by StartChild, are not there when it is restarted; but for a
// temporary child of its Spec that has ended and that StartChild has brought back.
func (k *core) keep(c *child) {
	if !k.nested {
		return
	}
	listed := c.listed
	if !listed {
		_, listed = k.kept.of(k.path + "/" + c.id)
	}
	if listed {
		k.kept.put(k.path+"/"+c.id, keptChild{c.gen, c.state == Suspended})
	}
}

// keepAll is the end of the supervisor.
func (k *core) keepAll() {
	if !k.nested {
		return
	}
	k.kept.put(k.path, keptChild{})
	for c := k.head; c != nil; c = c.next {
		k.keep(c)
	}
}

// recall gives a child that is about to be listed what was kept of it.
func (k *core) recall(c *child) {
	if !k.nested {
		return
	}
	was, ok := k.kept.of(k.path + "/" + c.id)
	if !ok {
		return
	}
	c.gen = max(c.gen, was.gen)
	if was.suspended {
		k.set(c, Suspended, ReasonTerminated)
	}
}
