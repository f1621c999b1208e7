package pool

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/health/liveness"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Info is a pool as the API shows it: how many instances it has and wants.
type Info struct {
	_         struct{} `schema:"Pool" doc:"The actual and wanted instances of a pool."`
	Size      int      `json:"size" minimum:"0" doc:"The wanted number of instances."`
	Instances int      `json:"instances" minimum:"0" doc:"The number of running instances, including drained ones."`
	Draining  int      `json:"draining" minimum:"0" doc:"The number of drained instances."`
	Min       int      `json:"min" minimum:"0" doc:"The least number of instances."`
	Max       int      `json:"max" minimum:"0" doc:"The greatest number of instances."`
	Answer    int      `json:"answer" doc:"The last good answer of the check; meaningless unless answered is true."`
	Answered  bool     `json:"answered" doc:"The check has given a good answer."`
	// CheckedAt is the end of the last check, and Error is why it failed.
	CheckedAt *time.Time `json:"checked_at,omitempty" doc:"When the last check ended."`
	Error     string     `json:"error,omitempty" doc:"Why the last check failed; the last good answer stays in force."`
	Checking  bool       `json:"checking" doc:"The check is running."`
	Booting   bool       `json:"booting" doc:"on_boot is running; no instance starts before its end."`
	Retired   bool       `json:"retired" doc:"The pool is no longer in the file; it is removed when its last instance has finished."`
}

// At is a pool and its path.
type At struct {
	_    struct{} `schema:"PoolAt" doc:"A pool and its path."`
	Path string   `json:"path" doc:"The path of the pool."`
	Pool Info     `json:"pool"`
}

// API returns the pool at a path as the API shows it, or nil if there is none.
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
	s := newInfo(p, c.wantedSize(), c.demand, c.checkedAt)
	s.Retired, s.Checking, s.Booting = c.retired, c.checking && p.Check != nil, !c.booted
	for _, m := range c.members(seen) {
		if m.Lives {
			s.Instances++
			if m.Drain != nil {
				s.Draining++
			}
		}
	}
	return s
}

// newInfo returns what the API shows of the size of a pool and of its check.
func newInfo(p *spec.Pool, size int, d Demand, checkedAt time.Time) *Info {
	s := &Info{Size: size, Min: p.Min, Max: p.Ceiling(), Answered: d.Known, Answer: d.Asked}
	if !checkedAt.IsZero() && p.Check != nil {
		s.CheckedAt = &checkedAt
	}
	if d.Problem != nil {
		s.Error = d.Problem.Error()
	}
	return s
}

// Explanation is the part of a pool in the explanation of a node. Empty fields add nothing.
type Explanation struct {
	Rule, Next, Hint string
	Evidence         []string
}

// Explain explains a pool, or an instance that its pool no longer wants. runs reports whether the
// node runs.
func (m *Manager) Explain(path string, runs bool) (x Explanation) {
	if d, ok := m.Drains.Of(path); ok && d.Pool {
		above, _ := cut(path)
		x.Hint = "its pool says how many it wants: coppice explain " + above
	} else if c := m.Of(path); c != nil {
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
		x.Evidence = append(x.Evidence, fmt.Sprintf("the last check, %v ago, failed, so this still holds: %v",
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

// Text summarizes the size of a pool in a line.
func (p Info) Text() string {
	if p.Retired {
		return fmt.Sprintf("no longer in the file, %d live, %d to finish", p.Instances, p.Draining)
	}
	text := fmt.Sprintf("%d wanted (%d..%d), %d live", p.Size, p.Min, p.Max, p.Instances)
	if p.Draining > 0 {
		text += fmt.Sprintf(", %d to finish", p.Draining)
	}
	if p.Booting {
		text += ", on_boot runs"
	}
	if p.Error != "" {
		text += "; the check fails: " + p.Error
	}
	return text
}
