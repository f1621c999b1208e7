package pool

import "slices"

// observed is an instance as its supervisor sees it.
type observed struct {
	Instance
	coming bool // it is about to be taken over, or to be started
}

// observe returns the instances by name; false if it cannot be known how they are. A retired
// pool that does not run has no instances, except for those that have yet to be taken over.
func (c *Controller) observe() (seen map[string]observed, known bool) {
	if c.isStopping() {
		return nil, false
	}
	pending := c.pending() // first: what has been taken over since is observed
	if !c.m.Fleet.Runs(c.path) {
		return nil, c.isRetired() && len(pending) == 0
	}
	instances, known := c.m.Fleet.Instances(c.path)
	if !known || c.isStopping() { // agents that the daemon has let go of look as if they had exited
		return nil, false
	}
	seen = make(map[string]observed, len(instances))
	for _, i := range instances {
		seen[i.Name] = observed{i, i.Waits && (pending[i.Name] || !i.Deferred)}
	}
	return seen, true
}

func (c *Controller) isStopping() bool {
	select {
	case <-c.m.Stopping:
		return true
	default:
		return false
	}
}

// pending returns the instances that are to be taken over, or that the reconciler is
// starting. Others that wait do so until they may be started.
func (c *Controller) pending() map[string]bool {
	c.mu.Lock()
	names := slices.Clone(c.names)
	c.mu.Unlock()
	pending := make(map[string]bool)
	for _, name := range names {
		if c.m.Fleet.IsPending(c.path + "/" + name) {
			pending[name] = true
		}
	}
	return pending
}

// members returns the instances as Plan sees them. Needs mu.
func (c *Controller) members(seen map[string]observed) []Member {
	all := slices.Clone(c.names)
	for name := range c.removing {
		all = append(all, name)
	}
	all = c.template.Sorted(all)
	members := make([]Member, len(all))
	for n, name := range all {
		m := Member{Name: name, Leaving: c.removing[name]}
		i, listed := seen[name]
		switch {
		case c.adding[name], i.coming:
			m.Lives, m.Held = true, true
		case listed:
			m.Lives = i.Lives
			m.Again = c.fresh && i.Completed
		default:
			m.Again = c.fresh // temporary, and exited
		}
		if d, ok := c.m.Drains.Of(c.path + "/" + name); ok && !d.Pool {
			m.Held = true
		} else if ok {
			m.Drain = &Drain{Finished: d.Finished, Until: d.Deadline}
			m.Lives = m.Lives && !d.Exited
		}
		members[n] = m
	}
	return members
}
