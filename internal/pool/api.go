package pool

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/health/liveness"
)

// API returns the pool at a path as the API shows it; nil if there is none.
func (m *Manager) API(path string) *Info {
	if c := m.Of(path); c != nil {
		return c.api()
	}
	return nil
}

// All returns all pools as the API shows them.
func (m *Manager) All() []At {
	all := []At{}
	for _, c := range m.all() {
		all = append(all, At{Path: c.path, Pool: *c.api()})
	}
	return all
}

func (c *Controller) api() *Info {
	seen, _ := c.observe()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.template.Pool
	s := &Info{
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

// Explanation is what a pool adds to the explanation of a node. What is empty stays as it is.
type Explanation struct {
	Rule, Next, Hint string
	Evidence         []string
}

// Explain says what there is to say of a pool, or of an instance that its pool no longer
// wants. runs is whether the node runs.
func (m *Manager) Explain(path string, runs bool) (x Explanation) {
	if d, ok := m.Drains.Of(path); ok && d.Pool {
		above, _ := cut(path)
		x.Hint = "its pool says how many it wants: coppice explain " + above
		return x
	}
	if c := m.Of(path); c != nil {
		return c.explain(runs)
	}
	return x
}

func (c *Controller) explain(runs bool) (x Explanation) {
	now, interval := time.Now(), c.m.Fleet.Interval()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		x.Rule = "it is no longer in the file; its instances may finish"
		x.Next, x.Hint = "it is gone with the last of its instances", "to stop them now: coppice stop "+c.path
		return x
	}
	p := c.template.Pool
	x.Evidence = []string{fmt.Sprintf("%s wanted, of %s that may be", instances(c.demand.Size(p)), bounds(p))}
	switch {
	case c.demand.Known && p.Check == nil:
		x.Evidence = append(x.Evidence, "it has no check: one instance is wanted, within these bounds")
	case c.demand.Known:
		x.Evidence = append(x.Evidence, fmt.Sprintf("the check said %d last", c.demand.Asked))
	default:
		x.Evidence = append(x.Evidence, "the check has not answered yet: until then it is the minimum")
	}
	if c.demand.Problem != nil {
		x.Evidence = append(x.Evidence, fmt.Sprintf("the last check, %v ago, gave no answer, so that this holds: %v",
			max(0, now.Sub(c.checkedAt)).Round(100*time.Millisecond), c.demand.Problem))
	}
	if !runs {
		return x
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
	return x
}
