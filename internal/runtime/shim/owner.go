package shim

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

var _ runtime.Owner = (*Runtime)(nil)

// owners maps shims and slots to agents. The zero value is empty.
type owners struct {
	mu    sync.Mutex
	shims map[proc.Identity]string // paths by the shim of the slot
	slots map[string]string        // paths by the name of the directory
}

// add adds a slot, and replaces its last shim by another one unless that is zero.
func (o *owners) add(s *slot, last, shim proc.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shims == nil {
		o.shims, o.slots = make(map[proc.Identity]string), make(map[string]string)
	}
	delete(o.shims, last)
	if shim.PID > 0 {
		o.shims[shim] = s.path
	}
	o.slots[filepath.Base(s.dir)] = s.path
}

// remove removes a slot.
func (o *owners) remove(s *slot, shim proc.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.shims, shim)
	delete(o.slots, filepath.Base(s.dir))
}

// Owner finds the agent of a process by its shim, which stays an ancestor of all descendants as
// long as it runs, and by the agent's control group.
func (r *Runtime) Owner(l proc.Lineage) (path string, at int) {
	name := r.groupSlot(l.Group)
	r.owners.mu.Lock()
	path, in := r.owners.slots[name]
	at = len(l.Processes)
	if in {
		at = 0
	}
	for i, id := range l.Processes[:at] {
		if p, ok := r.owners.shims[id]; ok {
			path, at, in = p, i, true
			break
		}
	}
	r.owners.mu.Unlock()
	for i, id := range l.Processes[:at] {
		if p := wire.ShimAt(r.Dir, id); p != "" {
			return p, i
		}
	}
	if !in {
		return "", -1
	}
	return path, at
}

// groupSlot returns the name of the slot whose control group a path ends in, or in a group below
// it; empty if it is none of this runtime.
func (r *Runtime) groupSlot(group string) (slot string) {
	prefix := wire.GroupPrefix(r.Dir)
	for name := range strings.SplitSeq(group, "/") {
		if s, ok := strings.CutPrefix(name, prefix); ok {
			slot = s
		}
	}
	return slot
}
