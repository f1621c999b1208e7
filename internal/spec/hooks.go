package spec

import (
	"cmp"
	"time"
)

// Hooks are commands that run at points of an agent's lifecycle, as in Sage: Waking before a
// start, Start when the agent is ready, Error after a failure, Resting before a stop.
type Hooks struct {
	// Waking runs before each incarnation, when its beliefs are available. If it fails, the
	// start fails.
	Waking Hook
	// Start runs when an incarnation is ready. Later siblings wait for it. If it fails, the
	// incarnation is stopped and its start has failed.
	Start Hook
	// Resting runs before the stop signal is sent. Its result is ignored.
	Resting Hook
	// Error runs when an incarnation has failed or could not be started, before its supervisor
	// decides on a restart. Its result is ignored.
	Error Hook
	// Death is Pool.OnDeath in the instances of a pool.
	Death Hook
}

// Hook is a command that runs in the environment and the directory of the agent. There is no
// hook if Command is empty.
type Hook struct {
	Command []string
	// Timeout limits the run, which fails when it expires; DefaultHookTimeout if zero.
	Timeout time.Duration
}

// DefaultHookTimeout is the default of Hook.Timeout.
const DefaultHookTimeout = 30 * time.Second

// Exists reports whether there is a command.
func (h Hook) Exists() bool { return len(h.Command) > 0 }

// Named returns the hooks of an agent with their names in files, except Death.
func (h *Hooks) Named() []NamedHook {
	return []NamedHook{{"on_waking", &h.Waking}, {"on_start", &h.Start}, {"on_resting", &h.Resting},
		{"on_error", &h.Error}}
}

// NamedHook is a hook with its name in files.
type NamedHook struct {
	Name string
	*Hook
}

func (c checker) checkHook(h *Hook, path ...string) {
	c.checkTime(h.Timeout, append(path, "timeout")...)
	if h.Exists() {
		h.Timeout = cmp.Or(h.Timeout, DefaultHookTimeout)
	}
	if h.Command != nil {
		c.checkCommand(h.Command, path...)
	}
}
