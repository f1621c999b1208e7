package pool

import (
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/supervisor"
)

// API returns the pool at a path as the API shows it; nil if there is none.
func (m *Manager) API(path string) *api.Pool {
	if c := m.Of(path); c != nil {
		return c.api()
	}
	return nil
}

// All returns all pools as the API shows them.
func (m *Manager) All() []api.PoolAt {
	all := []api.PoolAt{}
	for _, c := range m.all() {
		all = append(all, api.PoolAt{Path: c.path, Pool: *c.api()})
	}
	return all
}

func (c *Controller) api() *api.Pool {
	seen, _ := c.observe()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.template.Pool
	s := &api.Pool{
		Retired: c.retired, Size: c.wantedSize(), Min: p.Min, Max: p.Ceiling(),
		Answered: c.demand.Known, Answer: c.demand.Asked, Checking: c.checking && p.Check != nil, Booting: !c.booted,
	}
	for _, m := range c.members(seen) {
		if m.Lives {
			s.Instances++
			if m.Drain != nil {
				s.Draining++
			}
		}
	}
	if !c.checkedAt.IsZero() && p.Check != nil {
		at := c.checkedAt
		s.CheckedAt = &at
	}
	if c.demand.Problem != nil {
		s.Error = c.demand.Problem.Error()
	}
	return s
}

// Explain adds to an explanation what there is to say of a pool, or of an instance that its
// pool no longer wants.
func (m *Manager) Explain(x *api.Explanation) {
	if d, ok := m.Drains.Of(x.Node.Path); ok && d.Pool {
		above, _ := cut(x.Node.Path)
		x.Hint = "its pool says how many it wants: coppice explain " + above
		return
	}
	if c := m.Of(x.Node.Path); c != nil {
		c.explain(x)
	}
}

func (c *Controller) explain(x *api.Explanation) {
	now, interval := time.Now(), c.m.Fleet.Interval()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		x.Rule = "it is no longer in the file; its instances may finish"
		x.Next, x.Hint = "it is gone with the last of its instances", "to stop them now: coppice stop "+x.Node.Path
		return
	}
	p := c.template.Pool
	evidence := []string{fmt.Sprintf("%s wanted, of %s that may be", instances(c.demand.Size(p)), bounds(p))}
	switch {
	case c.demand.Known && p.Check == nil:
		evidence = append(evidence, "it has no check: one instance is wanted, within these bounds")
	case c.demand.Known:
		evidence = append(evidence, fmt.Sprintf("the check said %d last", c.demand.Asked))
	default:
		evidence = append(evidence, "the check has not answered yet: until then it is the minimum")
	}
	if c.demand.Problem != nil {
		evidence = append(evidence, fmt.Sprintf("the last check, %v ago, gave no answer, so that this holds: %v",
			max(0, now.Sub(c.checkedAt)).Round(100*time.Millisecond), c.demand.Problem))
	}
	x.Evidence = slices.Concat(evidence, x.Evidence)
	if x.Node.State != supervisor.Running.String() && x.Node.State != api.Degraded {
		return
	}
	switch {
	case !c.booted:
		x.Next = "the first instance is started when on_boot has run"
	case c.checking:
		x.Next = "the check runs; what it says is done at once"
	case !c.checkedAt.IsZero() && p.Check != nil:
		left := max(0, interval-now.Sub(c.checkedAt)).Round(time.Second)
		x.Next = "the check runs again in " + liveness.Brief(left)
	}
}
