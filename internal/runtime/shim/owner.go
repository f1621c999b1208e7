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

// owners maps processes and slots to agents. The zero value is empty.
type owners struct {
	mu     sync.Mutex
	shims  map[proc.Identity]bool
	agents map[proc.Identity]*slot // their processes
	marks  map[proc.Mark]*slot
	slots  map[string]*slot // by the name of the directory
}

// add adds a slot.
func (o *owners) add(s *slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slots == nil {
		o.shims, o.agents = make(map[proc.Identity]bool), make(map[proc.Identity]*slot)
		o.marks, o.slots = make(map[proc.Mark]*slot), make(map[string]*slot)
	}
	name := filepath.Base(s.dir)
	o.slots[name], o.marks[wire.Mark(name)] = s, s
}

// addShim adds a shim.
func (o *owners) addShim(id proc.Identity) {
	if id.PID == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shims[id] = true
}

// setAgent replaces the process of the agent of a slot.
func (o *owners) setAgent(s *slot, before, now proc.Identity) {
	if before == now {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.agents, before)
	if now.PID > 0 {
		o.agents[now] = s
	}
}

// remove removes a slot.
func (o *owners) remove(s *slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := filepath.Base(s.dir)
	if o.slots[name] == s {
		delete(o.slots, name)
		delete(o.marks, wire.Mark(name))
	}
}

// slot returns a slot by the name of its directory; nil if it is not known.
func (o *owners) slot(name string) *slot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots[name]
}

// left records that a shim has left a slot.
func (o *owners) left(name string, shim proc.Identity) {
	s := o.slot(name)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shim == shim {
		s.shim = proc.Identity{}
	}
}

// forgetShim removes a shim that has ended.
func (o *owners) forgetShim(id proc.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.shims, id)
}

// Owner finds the agent of a process by its shim, which stays an ancestor of all descendants of
// its agents as long as it runs, and by the agent's control group. Below the shim is the process of
// the agent, or one that it has left behind, with its mark.
func (r *Runtime) Owner(l proc.Lineage) (path string, at int) {
	if grouped := r.owners.slot(r.groupSlot(l.Group)); grouped != nil {
		return grouped.path, 0
	}
	for i, id := range l.Processes {
		r.owners.mu.Lock()
		known := r.owners.shims[id]
		r.owners.mu.Unlock()
		if !known && !wire.IsShim(r.Dir, id) {
			continue
		}
		if i == 0 {
			return "", 0
		}
		return r.below(id, l.Processes[i-1]), i
	}
	return "", -1
}

// below returns the path of the agent to which a child of a shim belongs; empty if that is not
// known.
func (r *Runtime) below(shim, child proc.Identity) string {
	mark := proc.ReadMark(child.PID)
	r.owners.mu.Lock()
	s := r.owners.agents[child]
	if s == nil {
		s = r.owners.marks[mark]
	}
	r.owners.mu.Unlock()
	if s != nil {
		return s.path
	}
	return wire.AgentOf(r.Dir, shim, mark)
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
