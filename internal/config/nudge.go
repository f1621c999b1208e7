package config

import "github.com/coppice-dev/coppice/internal/spec"

func nudgeTable() table[spec.Nudge] {
	return table[spec.Nudge]{
		header: "[agent.nudge]",
		doc: "How an agent is reminded, when nothing is heard of it or there is something for it: exactly one " +
			"way. See [Agents](agents.md).",
		example: `[[agent]]
name = "writer"
command = "./write.sh"
heartbeat_timeout = "2m"
progress_timeout = "30m"
nudge = { signal = "USR1" }
`,
		keys: []key[spec.Nudge]{
			{row{name: "type", typ: "boolean", def: "false", doc: "a fixed line and Enter are typed into its " +
				"terminal, unless a person is attached and may be typing. Only with `terminal` or in tmux"},
				flag(func(n *spec.Nudge) *bool { return &n.Type })},
			{row{name: "signal", typ: "string", doc: "a signal to its process, as in `[agent.shutdown]`, but not " +
				"`KILL`. One that the agent does not handle ends it", also: []string{"kill"}},
				text(func(n *spec.Nudge) *string { return &n.Signal })},
			{row{name: "command", typ: "string or array of strings", doc: "a command, written as `command` is, " +
				"with the directory and the environment of the agent but not its token, and the reason in " +
				"`COPPICE_NUDGE`. It has 10s", also: []string{"exec", "cmd", "run"}},
				commandKey(func(n *spec.Nudge) *[]string { return &n.Command })},
		},
	}
}

// nudge reads the table and sees to it that there is a way in it.
func (r *reader) nudge(v *value, into *agent) {
	before := len(r.errs)
	nudgeTable().read(r, v, &into.Nudge)
	if n := into.Nudge; len(r.errs) == before && !n.Type && n.Signal == "" && len(n.Command) == 0 {
		r.fail(v.at, v, "", "nudge has no way, expected one of type, signal, command")
	}
}
