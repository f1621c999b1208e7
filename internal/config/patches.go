package config

import "github.com/coppice-dev/coppice/internal/config/toml"

// ownPatches returns the patches of a coppice.toml.
func ownPatches() []toml.Patchable {
	agents, supervisors := toml.Named(agentTable().Section()), toml.Named(supervisorTable().Section())
	agents.Shorthand, supervisors.Shorthand = shorthand, shorthand
	return []toml.Patchable{agents, supervisors}
}

// patchesSection returns [[patches.agent]] for the reference page.
func patchesSection() toml.Section {
	return toml.Section{
		Header: "[[patches.agent]]",
		Doc: "Changes an agent that is declared elsewhere, in this file or in one that it includes; " +
			"`[[patches.supervisor]]` does the same to a supervisor. Its other keys are those of `[[agent]]`, " +
			"and only the keys that are set change anything. Tables such as `env` are changed key by key; a list " +
			"is replaced, also by `[]`. Patches are applied after everything else, in the order of the files. " +
			"See [Files](files.md).",
		Example: `[[agent]]
name = "worker"
command = ["./work.sh"]
env = { LOG_LEVEL = "info", MODEL = "small" }

[[patches.agent]]
name = "worker"
env = { LOG_LEVEL = "debug" }
env_remove = ["MODEL"]
command_append = ["--verbose"]
`,
		Rows: []toml.Row{
			{Name: "name", Type: "string", Default: toml.Required,
				Doc: "the agent to change; it is an error if there is none with that name"},
			{Name: "*_append", Type: "array", Doc: "elements to add to the end of a list, as in `command_append`"},
			{Name: "*_remove", Type: "array of strings", Doc: "keys to remove from a table, as in `env_remove`"},
		},
	}
}

// shorthand returns the key of the table for which a value that is none stands, as
// in backoff = "linear"; "" where there is no such thing. The path is that
// below an agent.
func shorthand(path ...string) string {
	switch {
	case path[0] == "backoff" && len(path) == 1:
		return "kind"
	case (path[0] == "on_waking" || path[0] == "on_start" || path[0] == "on_resting" || path[0] == "on_error") &&
		len(path) == 1:
		return "command"
	case path[0] == "pool" && len(path) == 2 && (path[1] == "on_boot" || path[1] == "on_death"):
		return "command"
	case path[0] == "beliefs" && len(path) == 2:
		return "initial"
	}
	return ""
}
