package config

import (
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func nudgeTable() toml.Table[spec.Nudge] {
	return toml.Table[spec.Nudge]{
		Header: "[agent.nudge]",
		Doc: "How an agent is reminded when it sends no heartbeat or there is work for it: exactly one way. See " +
			"[Agents](agents.md).",
		Example: `[[agent]]
name = "writer"
command = "./write.sh"
heartbeat_timeout = "2m"
progress_timeout = "30m"
nudge = { signal = "USR1" }
`,
		Keys: []toml.Key[spec.Nudge]{
			{Name: "type", Type: "boolean", Default: "false", Doc: "a fixed line and Enter are typed into its " +
				"terminal, unless a person is attached and may be typing. Only with `terminal` or in tmux",
				Read: toml.Bool(func(n *spec.Nudge) *bool { return &n.Type })},
			{Name: "signal", Type: "string", Doc: "a signal to its process, as in `[agent.shutdown]`, but not " +
				"`KILL`. An agent that does not handle it ends", Also: []string{"kill"},
				Read: toml.Text(func(n *spec.Nudge) *string { return &n.Signal })},
			{Name: "command", Type: "string or array of strings", Doc: "a command, written as `command` is, with " +
				"the directory and the environment of the agent but without its token, and the reason in " +
				"`COPPICE_NUDGE`. It may take 10s", Also: []string{"exec", "cmd", "run"},
				Read: setting.CommandKey(func(n *spec.Nudge) *[]string { return &n.Command })},
		},
	}
}

// readNudge reads the table and sees to it that there is a way in it.
func readNudge(r *toml.Reader, v *toml.Value, into *agent) {
	before := r.Count()
	nudgeTable().Read(r, v, &into.Nudge)
	if n := into.Nudge; r.Count() == before && !n.Type && n.Signal == "" && len(n.Command) == 0 {
		r.Fail(v, "", "nudge has no way, expected one of type, signal, command")
	}
}
