package spec

import (
	"cmp"
	"time"
)

// Hooks are commands that run at points of an agent's lifecycle, in the
// order of Sage: waking, then start, then the agent itself runs;
// error after an end that is a failure; resting before it is stopped.
type Hooks struct {
	// Waking runs before each incarnation, when its beliefs are there. The
	// start has failed if it fails.
	Waking Hook
	// Start runs when an incarnation is ready; siblings that come later wait
	// for it, too. If it fails the incarnation is stopped, and its start has failed.
	Start Hook
	// Resting runs before the stop signal is sent. Nothing depends on its success.
	Resting Hook
	// Error runs when an incarnation has ended as a failure, or could not be
	// started, before its supervisor decides what comes next. Nothing depends
	// on its success.
	Error Hook
	// Death is Pool.OnDeath in the instances of a pool.
	Death Hook
}

// Hook is a command with the environment and the directory of the agent. It
// does not exist if Command is empty.
type Hook struct {
	Command []string
	// Timeout is when it is stopped, and has failed; DefaultHookTimeout if zero.
	Timeout time.Duration
}

// DefaultHookTimeout is the Timeout of a Hook if that is zero.
const DefaultHookTimeout = 30 * time.Second

// Exists reports whether there is something to run.
func (h Hook) Exists() bool { return len(h.Command) > 0 }

// Named returns the hooks of an agent with their names in files, in the order of
// their fields. That of a pool is not among them.
func (h *Hooks) Named() []NamedHook {
	return []NamedHook{{"on_waking", &h.Waking}, {"on_start", &h.Start}, {"on_resting", &h.Resting},
		{"on_error", &h.Error}}
}

// NamedHook is one of Hooks.
type NamedHook struct {
	Name string
	*Hook
}

func (a *assembly) checkHook(i int, h *Hook, path ...string) {
	a.checkTime(i, h.Timeout, append(path, "timeout")...)
	if h.Exists() {
		h.Timeout = cmp.Or(h.Timeout, DefaultHookTimeout)
	}
	if h.Command != nil {
		a.checkCommand(i, h.Command, path...)
	}
}
