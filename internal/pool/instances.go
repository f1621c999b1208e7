package pool

import "slices"

// observed is an instance as its supervisor sees it.
type observed struct {
	Instance
	coming bool // it is about to be adopted or started
}

// observe returns the instances by name, and false if their state is unknown. A retired pool that
// does not run has no instances, except for those that are still to be adopted.
func (c *Controller) observe() (seen map[string]observed, known bool) {
	if c.isStopping() {
		return nil, false
	}
	pending := c.pending() // before the rest, so that an instance adopted meanwhile is observed
	if !c.m.Fleet.Runs(c.path) {
		return nil, c.isRetired() && len(pending) == 0
	}
	instances, known := c.m.Fleet.Instances(c.path)
	if !known || c.isStopping() { // agents that a stopping daemon has released look as if they had exited
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

// pending returns the instances that are about to be adopted, or that the reconciler is starting.
// Other waiting instances may not start yet.
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

// members returns the instances as input of Plan. Needs mu.
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
			m.Again = c.fresh // a temporary one that has exited
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
