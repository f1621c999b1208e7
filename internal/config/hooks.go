package config

import (
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

const hookType = "string, array of strings, or table"

// hookKey returns the key of a hook: a command, or a table that has a command. The header of
// that table is table followed by name.
func hookKey[T any](table, name, doc string, field func(*T) *spec.Hook, also ...string) toml.Key[T] {
	return toml.Key[T]{Name: name, Type: hookType, Doc: doc, Also: also,
		Read: func(r *toml.Reader, v *toml.Value, into *T) {
			hook := field(into)
			if v.Kind == toml.KindTable {
				hookTable(table+name).Read(r, v, hook)
			} else if argv, ok := setting.ReadCommand(r, v); ok {
				hook.Command = argv
			}
		}}
}

func hookTable(name string) toml.Table[spec.Hook] {
	return toml.Table[spec.Hook]{
		Header: "[agent." + name + "]",
		Doc: "A hook is a command that runs at a point of an agent's lifecycle: `on_waking`, `on_start`, " +
			"`on_resting` or `on_error`. It has the agent's directory, environment and token, so that commands " +
			"such as `coppice agent belief` work in it; `COPPICE_HOOK` is its name. For `on_error`, " +
			"`COPPICE_EXIT` is the kind of exit (`failure`, `killed`, `lost`, ...), `COPPICE_EXIT_REASON` the " +
			"reason in words, and `COPPICE_EXIT_CODE` or `COPPICE_EXIT_SIGNAL` the exit code or signal, if there " +
			"was one. Each run is an event, with the last lines of its output. If the daemon is killed while a " +
			"hook runs, the next daemon may run it again.\n\n" +
			"In a [fleet of several machines](fleet.md), hooks run on the node of the agent: `on_waking` on the " +
			"one on which the agent is started then. If the agent has ended and that node is lost, the hooks that " +
			"follow run on a node that takes the agent now, and fail if there is none. A hook fails, and is not " +
			"repeated, when its node has lost its lease or the connection to the controller: the node ends it " +
			"then, or at the latest 3s after its `timeout`.",
		Example: `[[agent]]
name = "steward"
command = "./steward.sh"
on_waking = { command = "./reconnect.sh", timeout = "10s" }
on_error = "coppice agent belief set alerts=1"
`,
		Keys: []toml.Key[spec.Hook]{
			{Name: "command", Type: "string or array of strings", Default: toml.Required,
				Doc: "what to run, written as the agent's `command` is", Also: []string{"cmd", "exec", "run"},
				Read: setting.CommandKey(func(h *spec.Hook) *[]string { return &h.Command })},
			{Name: "timeout", Type: "duration", Default: "30s",
				Doc: "how long it may take; then it is stopped and has failed", Also: []string{"grace"},
				Read: toml.Duration(func(h *spec.Hook) *time.Duration { return &h.Timeout })},
		},
	}
}
