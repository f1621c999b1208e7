package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Validate checks the whole tree without starting anything. The error is a
// *SpecError that names the node and the field.
func (s Spec) Validate() error { return s.validate(s.path(), 1) }

func (s Spec) path() string {
	if s.Name == "" {
		return "root"
	}
	return s.Name
}

// limit returns the Limit, or the default.
func (s Spec) limit() Limit {
	if s.Limit == (Limit{}) {
		return Escalating(DefaultMaxRestarts, DefaultWithin)
	}
	return s.Limit
}

func (s Spec) validate(path string, depth int) error {
	bad := func(field, format string, args ...any) error {
		return &SpecError{Path: path, Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	switch {
	case depth > MaxDepth:
		return bad("Children", "supervisors are nested more than %d levels deep", MaxDepth)
	case s.Strategy > SimpleOneForOne:
		return bad("Strategy", "unknown: %v", s.Strategy)
	case s.AutoShutdown > WhenDone:
		return bad("AutoShutdown", "unknown: %v", s.AutoShutdown)
	case s.StartFailure > Retry:
		return bad("StartFailure", "unknown: %d", s.StartFailure)
	case s.Strategy == SimpleOneForOne && len(s.Children) != 1:
		return bad("Children", "a simple_one_for_one supervisor takes one child, its template, not %d", len(s.Children))
	case strings.Contains(s.Name, "/"):
		return bad("Name", "must not contain \"/\"")
	}
	if problem := s.limit().problem(); problem != "" {
		return bad("Limit", "%s", problem)
	}
	ids := make([]string, len(s.Children))
	for i := range s.Children {
		c := &s.Children[i]
		if err := c.validate(path, s.AutoShutdown, depth); err != nil {
			return err
		}
		ids[i] = c.ID
	}
	slices.Sort(ids) // a map would cost a big fleet more
	for i := range ids {
		if i > 0 && ids[i] == ids[i-1] {
			return bad("Children", "two children have the ID %q", ids[i])
		}
	}
	return nil
}

// validate checks a child of the supervisor at path, which is at the given depth.
func (c *ChildSpec) validate(path string, auto AutoShutdown, depth int) error {
	bad := func(field, format string, args ...any) error {
		return &SpecError{Path: path + "/" + c.ID, Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if problem := idProblem(c.ID); problem != "" {
		return bad("ID", "%s", problem)
	}
	ways := 0
	for _, set := range [...]bool{c.Run != nil, c.Start != nil, c.Supervisor != nil} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return bad("Run", "exactly one of Run, Start and Supervisor must be set, not %d", ways)
	case c.Restart > Temporary:
		return bad("Restart", "unknown: %v", c.Restart)
	case c.Type > SupervisorType:
		return bad("Type", "unknown: %v", c.Type)
	case c.OnAbandon > Fail:
		return bad("OnAbandon", "unknown: %d", c.OnAbandon)
	case c.Shutdown < Infinity:
		return bad("Shutdown", "must not be negative")
	case c.StartTimeout < 0:
		return bad("StartTimeout", "must not be negative")
	case c.WaitReady && c.Run == nil:
		return bad("WaitReady", "is for Run children; Start returns when it is ready")
	case c.StartTimeout > 0 && c.Run != nil && !c.WaitReady:
		return bad("StartTimeout", "has nothing to wait for without WaitReady")
	case c.Significant && c.Restart == Permanent:
		return bad("Significant", "a permanent child never ends for good, so it cannot be significant")
	case c.Significant && auto != AnySignificant && auto != AllSignificant:
		return bad("Significant", "has no meaning with AutoShutdown %v", auto)
	}
	if problem := c.Backoff.problem(); problem != "" {
		return bad("Backoff", "%s", problem)
	}
	if c.Limit != (Limit{}) {
		if problem := c.Limit.problem(); problem != "" {
			return bad("Limit", "%s", problem)
		}
	}
	if c.Supervisor != nil {
		return c.Supervisor.validate(path+"/"+c.ID, depth+1)
	}
	return nil
}

func idProblem(id string) string {
	switch {
	case id == "":
		return "must not be empty"
	case strings.Contains(id, "/"):
		return "must not contain \"/\", which separates the parts of a path"
	}
	return ""
}

func (b Backoff) problem() string {
	switch {
	case b.Kind > Exponential:
		return fmt.Sprintf("unknown kind: %v", b.Kind)
	case b.Base < 0 || b.Cap < 0:
		return "base and cap must not be negative"
	case b.Base > maxTime || b.Cap > maxTime || b.StableAfter > maxTime:
		return "times above a hundred years are not supported"
	case b.Base > cmp.Or(b.Cap, DefaultBackoffCap):
		return fmt.Sprintf("base %v is above cap %v", b.Base, cmp.Or(b.Cap, DefaultBackoffCap))
	}
	return ""
}

func (l Limit) problem() string {
	switch {
	case l.Max < Unlimited:
		return fmt.Sprintf("max is %d; it must be 0 or more, or Unlimited", l.Max)
	case l.Within < 0 || l.Within > maxTime:
		return fmt.Sprintf("the window is %v; it must be 0 (for ever) to a hundred years", l.Within)
	case l.Count > CountFailures, l.Scope > ScopeChild, l.OnLimit > Pause:
		return "unknown count, scope or action"
	case l.OnLimit == Quarantine && (l.Within == 0 || l.Max == 0):
		return "a quarantine needs a window and a maximum of at least 1, or it could never end"
	case l.Within > 0 && l.Max > maxRemembered:
		return fmt.Sprintf("max is %d; at most %d, or Unlimited", l.Max, maxRemembered)
	}
	return ""
}

// maxTime bounds durations, so that sums do not overflow.
const maxTime = 100 * 365 * 24 * time.Hour

// maxRemembered bounds the memory of a window: 8 bytes for each thing counted.
const maxRemembered = 1 << 30
