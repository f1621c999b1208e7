package config

import (
	"fmt"

	"github.com/coppice-dev/coppice/supervisor"
)

func supervisorTable() table[group] {
	of := func(g *group) *limit { return &g.limit }
	return table[group]{
		header: "[[supervisor]]",
		doc: "A supervisor starts its children in order, watches them, restarts them by its strategy and stops " +
			"them in reverse order. Supervisors nest by naming supervisors as children, up to 8 levels with the " +
			"root. What no supervisor names hangs under the root.",
		example: `[[supervisor]]
name = "backend"
strategy = "rest_for_one"
children = ["db", "api"]
max_restarts = 3
within = "30s"

[[agent]]
name = "db"
command = "./db.sh"

[[agent]]
name = "api"
command = "./api.sh --port 8080"
`,
		keys: []key[group]{
			{row{name: "name", typ: "string", def: required, doc: "unique in the file; a segment of paths",
				also: []string{"id"}}, text(func(g *group) *string { return &g.Name })},
			{row{name: "children", typ: "array of strings", def: required,
				doc: "names of agents and supervisors, in start order", also: []string{"agents", "members"}},
				func(r *reader, v *value, into *group) {
					if children, ok := r.list(v, "an array of names"); ok {
						into.children = children
					}
				}},
			{row{name: "strategy", typ: strategyType, def: "one_for_one", doc: strategyDoc},
				word(supervisor.ParseStrategy, func(g *group) *supervisor.Strategy { return &g.Strategy })},
			maxRestarts("as in `[supervision]`", "restarts of its children, within the window; "+
				"one more reaches the limit", of),
			window("within", "as in `[supervision]`", "the window in which restarts count", of),
			onLimit("as in `[supervision]`", onLimitDoc+". `quarantine` and `give_up` count for each child by itself",
				of),
			{row{name: "restart", typ: restartType, def: "always",
				doc: "the supervisor as a child of its parent: " + restartDoc},
				word(supervisor.ParseRestart, func(g *group) *supervisor.Restart { return &g.Restart }, restartMeant)},
			{row{name: "auto_shutdown", typ: autoType, def: "never", doc: autoDoc},
				word(parseAutoShutdown, func(g *group) *supervisor.AutoShutdown { return &g.AutoShutdown })},
			{row{name: "significant", typ: "boolean", def: "false", doc: signifDoc},
				flag(func(g *group) *bool { return &g.Significant })},
			suspendedKey("all below it is suspended: "+suspendedDoc, func(g *group) *bool { return &g.Suspended }),
			dependsOn("before anything in this supervisor is started, and stopped after all of it",
				func(g *group) *[]string { return &g.DependsOn }),
		},
	}
}

func parseAutoShutdown(text string) (supervisor.AutoShutdown, error) {
	for a := supervisor.NeverShutdown; a <= supervisor.WhenDone; a++ {
		if a.String() == text {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown auto_shutdown %q", text)
}
