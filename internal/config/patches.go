package config

// ownPatches are the patches of a coppice.toml.
func ownPatches() []patchable {
	agents, supervisors := named(agentTable().section()), named(supervisorTable().section())
	agents.shorthand, supervisors.shorthand = shorthand, shorthand
	return []patchable{agents, supervisors}
}

// patchesSection is [[patches.agent]] for the reference page.
func patchesSection() section {
	return section{
		header: "[[patches.agent]]",
		doc: "Changes an agent that is declared elsewhere, in this file or in one that it includes; " +
			"`[[patches.supervisor]]` does the same to a supervisor. Its other keys are those of `[[agent]]`, and " +
			"only those that are there change anything. " +
			"Tables such as `env` are changed key by key; a list is replaced, also by `[]`. Patches come after " +
			"everything else, in the order of the files. See [Files](files.md).",
		example: `[[agent]]
name = "worker"
command = ["./work.sh"]
env = { LOG_LEVEL = "info", MODEL = "small" }

[[patches.agent]]
name = "worker"
env = { LOG_LEVEL = "debug" }
env_remove = ["MODEL"]
command_append = ["--verbose"]
`,
		rows: []row{
			{name: "name", typ: "string", def: required,
				doc: "whom to change; it is an error if there is nobody of that name"},
			{name: "*_append", typ: "array", doc: "elements to add to the end of a list, as in `command_append`"},
			{name: "*_remove", typ: "array of strings", doc: "keys to remove from a table, as in `env_remove`"},
		},
	}
}

// shorthand is the key of the table for which a value that is none stands, as
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
