package config

import (
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

const hookType = "string, array of strings, or table"

// hookKey is the key of a hook: a command, or a table with one.
func hookKey(name, doc string, field func(*spec.Hooks) *spec.Hook, also ...string) key[agent] {
	return key[agent]{row{name: name, typ: hookType, doc: doc, also: also},
		func(r *reader, v *value, into *agent) {
			hook := field(&into.Hooks)
			if v.kind == isTable {
				hookTable(name).read(r, v, hook)
			} else if argv, ok := r.command(v); ok {
				hook.Command = argv
			}
		}}
}

func hookTable(name string) table[spec.Hook] {
	return table[spec.Hook]{
		header: "[agent." + name + "]",
		doc: "A hook is a command that runs at a turn of an agent's life: `on_waking`, `on_start`, `on_resting` or " +
			"`on_error`. It has the agent's directory and environment, with its token, " +
			"so that `coppice agent belief` and all else works in it; `COPPICE_HOOK` is its name. `on_error` also " +
			"finds in `COPPICE_EXIT` what kind of end it was " +
			"(`failure`, `killed`, `lost`, ...), in `COPPICE_EXIT_REASON` the reason in words, and in " +
			"`COPPICE_EXIT_CODE` or `COPPICE_EXIT_SIGNAL` the exit code or signal if there was one. " +
			"Each run is an event, with the last lines of its output. If the daemon is killed while a hook runs, " +
			"the next one may run it again.",
		example: `[[agent]]
name = "steward"
command = "./steward.sh"
on_waking = { command = "./reconnect.sh", timeout = "10s" }
on_error = "coppice agent belief set alerts=1"
`,
		keys: []key[spec.Hook]{
			{row{name: "command", typ: "string or array of strings", def: required,
				doc: "what to run, written as the agent's `command` is", also: []string{"cmd", "exec", "run"}},
				commandKey(func(h *spec.Hook) *[]string { return &h.Command })},
			{row{name: "timeout", typ: "duration", def: "30s",
				doc: "how long it may take; it is stopped then, and has failed", also: []string{"grace"}},
				duration(func(h *spec.Hook) *time.Duration { return &h.Timeout })},
		},
	}
}
