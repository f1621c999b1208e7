package config

import (
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/supervisor"
)

func supervisorTable() toml.Table[group] {
	of := func(g *group) *setting.Limit { return &g.limit }
	return toml.Table[group]{
		Header: "[[supervisor]]",
		Doc: "A supervisor starts its children in order, watches them, restarts them by its strategy and stops " +
			"them in reverse order. Supervisors nest by naming supervisors as children, up to 8 levels including " +
			"the root. An agent or supervisor that no supervisor names is a child of the root.",
		Example: `[[supervisor]]
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
		Keys: []toml.Key[group]{
			{Name: "name", Type: "string", Default: toml.Required, Doc: "unique in the file; a segment of paths",
				Also: []string{"id"}, Read: toml.Text(func(g *group) *string { return &g.Name })},
			{Name: "children", Type: "array of strings", Default: toml.Required,
				Doc: "names of agents and supervisors, in start order", Also: []string{"agents", "members"},
				Read: toml.List("an array of names", func(g *group) *[]string { return &g.children })},
			strategyKey(func(g *group) *supervisor.Strategy { return &g.Strategy }),
			setting.MaxRestarts("as in `[supervision]`", "restarts of its children, within the window; "+
				"one more reaches the limit", of),
			setting.Window("within", "as in `[supervision]`", "the window in which restarts count", of),
			setting.OnLimit("as in `[supervision]`",
				onLimitDoc+". `quarantine` and `give_up` count for each child separately", of),
			{Name: "restart", Type: restartType, Default: "always",
				Doc:  "the supervisor as a child of its parent: " + restartDoc,
				Read: setting.Restart(func(g *group) *supervisor.Restart { return &g.Restart })},
			autoShutdownKey(func(g *group) *supervisor.AutoShutdown { return &g.AutoShutdown }),
			{Name: "significant", Type: "boolean", Default: "false", Doc: signifDoc,
				Read: toml.Bool(func(g *group) *bool { return &g.Significant })},
			suspendedKey("all below it is suspended: "+suspendedDoc, func(g *group) *bool { return &g.Suspended }),
			dependsOn("before anything in this supervisor is started, and stopped after all of it",
				func(g *group) *[]string { return &g.DependsOn }),
		},
	}
}
