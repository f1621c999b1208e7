package gascity

import "github.com/coppice-dev/coppice/internal/config/toml"

// key is a key of a city.toml.
type key struct {
	toml.Row // Doc is its translation, or the reason why it is not supported
	unused   bool
}

// table is a table of a city.toml.
type table struct {
	header string
	doc    string
	keys   []key
}

func (t table) section() toml.Section {
	s := toml.Section{Header: t.header, Doc: t.doc}
	for _, k := range t.keys {
		s.Rows = append(s.Rows, k.Row)
	}
	return s
}

func (t table) key(name string) *key {
	for i := range t.keys {
		if t.keys[i].Name == name {
			return &t.keys[i]
		}
	}
	return nil
}

func becomes(name, typ, doc string, also ...string) key {
	return key{Row: toml.Row{Name: name, Type: typ, Doc: doc, Also: also}}
}

func ignored(name, typ, because string) key {
	return key{Row: toml.Row{Name: name, Type: typ, Doc: because}, unused: true}
}

// tables returns all tables of a city.toml. The first one is the file itself.
func tables() []table {
	const (
		prompts  = "Coppice sends no prompts; put it into `start_command` or `args`"
		beads    = "Coppice has its own tasks"
		provided = "Coppice starts the command as it is"
		sleep    = "agents run all the time"
		tmuxOnly = "it configures Gas City's tmux sessions"
	)
	return []table{
		{doc: "The file. `include` and patches work as in `coppice.toml`, with files of this kind.", keys: []key{
			becomes("include", "array of strings", "`include`"),
			becomes("workspace", "table", "`[project]`, and the command of agents without one"),
			becomes("daemon", "table", "`[daemon]`. Its limit applies to all agents, even without this table"),
			becomes("orders", "table", "`[orders]`"),
			becomes("agent", "array of tables", "`[[agent]]`", "agents"),
			becomes("rigs", "array of tables", "directories of agents, and whether their agents are suspended", "rig"),
			becomes("patches", "table", "`[[patches.agent]]`, by `dir` (or `rig`) and `name`, and `[[patches.rigs]]`"),
			becomes("providers", "table", "commands of agents that name a provider", "provider"),
			becomes("session", "table", "where agents run"),
			becomes("imports", "table", "named packs of the city, see `[imports.*]`", "import"),
			becomes("packs", "table", "names for packs, see `[packs.*]`"),
			becomes("named_session", "array of tables",
				"nothing if its `mode` is `always`; agents run all the time"),
			ignored("defaults", "table", "it applies to new rigs; name the packs in each of the `[[rigs]]`"),
			ignored("agent_defaults", "table", "there are no defaults for agents; set the keys of each agent"),
			ignored("agents", "table", "there are no defaults for agents; set the keys of each agent"),
			ignored("global", "table", tmuxOnly), ignored("commands", "array of tables",
				"there is no `gc` to add them to"),
			ignored("beads", "table", beads), ignored("dolt", "table", beads), ignored("storage", "table", beads),
			ignored("maintenance", "table", beads),
			becomes("formulas", "table", "nothing: formulas are files in `formulas/`, see `[orders]`"),
			ignored("convergence", "table", "formulas are only the text of tasks"),
			ignored("api", "table", "the daemon serves a unix socket only"),
			ignored("events", "table", "events are in the project's log"),
			ignored("mail", "table", "Coppice has its own mail"),
			ignored("usage", "table", "Coppice does not count usage"),
			ignored("pricing", "array of tables", "Coppice does not count usage"),
			ignored("chat_sessions", "table", sleep), ignored("session_sleep", "table", sleep),
			ignored("upstreams", "table", provided),
			ignored("service", "array of tables", "the daemon serves no HTTP port"),
			ignored("webhook", "array of tables", "the daemon serves no HTTP port"),
			ignored("webhooks", "table", "the daemon serves no HTTP port"),
			ignored("github", "table", "Coppice does not watch repositories"),
			ignored("extmsg", "table", "only agents and people send messages"),
			ignored("doctor", "table", "`coppice doctor` has no settings"),
		}},
		{header: "[workspace]", doc: "The city as a whole.", keys: []key{
			becomes("name", "string", "`[project] name`"),
			becomes("suspended", "boolean", "`[project] suspended`"),
			becomes("start_command", "string",
				"the command of agents that have neither `start_command` nor `provider`"),
			becomes("provider", "string",
				"the provider of agents that have neither, if there is no `start_command` here"),
			ignored("session_template", "string", "a session is named after its agent"),
			ignored("max_active_sessions", "integer", "set `max` of each pool"),
			becomes("includes", "array of strings",
				"packs of the city: paths relative to the city, or names in `[packs]`"),
			ignored("default_rig_includes", "array of strings",
				"it applies to new rigs; name the packs in each of the `[[rigs]]`"),
			ignored("install_agent_hooks", "array of strings", provided),
			ignored("global_fragments", "array of strings", prompts),
			ignored("isolation", "string", "agents run in their `dir`"),
			ignored("prefix", "string", beads),
		}},
		{header: "[daemon]", doc: "How agents are supervised.", keys: []key{
			becomes("patrol_interval", "duration", "`patrol_interval`"),
			becomes("max_restarts", "integer", "`max_restarts`, default 5; negative: no limit"),
			becomes("restart_window", "duration", "`restart_window`"),
			becomes("shutdown_timeout", "duration", "`shutdown_timeout`"),
			becomes("drift_drain_timeout", "duration", "`drift_drain_timeout`"),
			becomes("wisp_gc_interval", "duration", "`gc_interval`"),
			becomes("wisp_ttl", "duration", "`ttl`"),
			ignored("max_wakes_per_tick", "integer", "`max_parallel_starts` limits starts; there are no ticks"),
			ignored("probe_concurrency", "integer", "all checks run in parallel"),
			ignored("tick_debounce", "duration", "there are no ticks"),
			ignored("formula_v2", "boolean", "formulas are only the text of tasks"),
			ignored("graph_workflows", "boolean", "formulas are only the text of tasks"),
			ignored("observe_paths", "array of strings", "Coppice does not read transcripts of models"),
			ignored("nudge_dispatcher", "string", "there is no dispatcher"),
			ignored("start_ready_timeout", "duration", "set the timeout of `ready` of each agent"),
			ignored("auto_restart_on_drift", "boolean",
				"agents always restart when their configuration changes"),
		}},
		{header: "[session]", doc: "Where agents run.", keys: []key{
			becomes("provider", "string", "`tmux` is `runtime = \"tmux\"` and `subprocess` a process with pipes; "+
				"without it, an agent is a process with a terminal, which `coppice attach` shows. Other values are "+
				"reported and ignored"),
			becomes("setup_timeout", "duration", "the `timeout` of `pre_start` and `session_setup`"),
			ignored("startup_timeout", "duration", "an agent is ready when its process exists"),
			ignored("socket", "string", "there is one tmux server for each project"),
			ignored("nudge_ready_timeout", "duration", prompts), ignored("nudge_retry_interval", "duration", prompts),
			ignored("nudge_lock_timeout", "duration", prompts),
			ignored("debounce_ms", "integer", tmuxOnly), ignored("display_ms", "integer", tmuxOnly),
			ignored("remote_match", "string", "all agents run on this machine"),
			ignored("k8s", "table", "all agents run on this machine"),
			ignored("acp", "table", "agents are OS processes"),
			ignored("hybrid", "table", "all agents run on this machine"),
		}},
		{header: "[[rigs]]", doc: "Projects that agents work in.", keys: []key{
			becomes("name", "string", "an agent with this `dir` belongs to it"),
			becomes("path", "string", "the directory of its agents"),
			becomes("suspended", "boolean", "suspends its agents"),
			ignored("prefix", "string", beads), ignored("default_branch", "string", "there are no worktrees"),
			becomes("includes", "array of strings",
				"packs of the rig: paths relative to the city, or names in `[packs]`"),
			becomes("imports", "table", "named packs of the rig, see `[imports.*]`"),
			becomes("overrides", "array of tables", "patches of the agents of its packs; like "+
				"`[[patches.agent]]`, with `agent` for the name"),
			becomes("patches", "array of tables", "the same as `overrides`"),
			ignored("formulas_dir", "string", "formulas are only the text of tasks"),
			ignored("default_sling_target", "string", beads),
			ignored("session_sleep", "table", sleep),
			ignored("max_active_sessions", "integer", "set `max` of each pool"),
			ignored("dolt_host", "string", beads), ignored("dolt_port", "string", beads),
		}},
		{header: "[imports.*]", doc: "A pack. Its agents are called `IMPORT__NAME`, in a rig `RIG--IMPORT__NAME`; " +
			"`depends_on`, `pool` and patches may omit `IMPORT__`.", keys: []key{
			becomes("source", "string", "the path of its directory, relative to the city, or in a pack to the pack; "+
				"a leading `//` is the city. URLs are reported and not read"),
			becomes("export", "boolean", "for a pack in a pack: its agents get the name of the outer import"),
			becomes("transitive", "boolean", "false: without the packs that it includes or imports itself"),
			becomes("shadow", "string", "nothing; the agents of two imports have different names"),
			ignored("version", "string", "packs are read from their directories as they are"),
		}},
		{header: "[packs.*]", doc: "A name for a pack.", keys: []key{
			becomes("source", "string", "as in `[imports.*]`"),
			ignored("ref", "string", "packs are read from their directories as they are"),
			ignored("path", "string", "packs are read from their directories as they are"),
		}},
		{header: "pack.toml", doc: "The file of a pack, in its directory. Agents are declared in it, or are " +
			"directories `agents/NAME/` with an `agent.toml` that has the keys of `[[agent]]`, and a " +
			"`namepool.txt`. Orders are files in `orders/`. A city with such a file next to its " +
			"`city.toml` is a pack itself; `city.toml` takes precedence.", keys: []key{
			becomes("pack", "table", "see `[pack]`"),
			becomes("imports", "table", "named packs, see `[imports.*]`", "import"),
			becomes("agent", "array of tables", "`[[agent]]`", "agents"),
			becomes("providers", "table", "providers, unless the city has one of that name", "provider"),
			becomes("patches", "table", "patches of its own agents and those of its packs, by `name` alone"),
			becomes("named_session", "array of tables",
				"nothing if its `mode` is `always`; agents run all the time"),
			ignored("agent_defaults", "table", "there are no defaults for agents; set the keys of each agent"),
			ignored("agents", "table", "there are no defaults for agents; set the keys of each agent"),
			becomes("formulas", "table", "nothing: formulas are files in `formulas/`, see `[orders]`"),
			ignored("global", "table", tmuxOnly), ignored("commands", "array of tables",
				"there is no `gc` to add them to"),
			ignored("doctor", "array of tables", "`coppice doctor` has no settings"),
			ignored("service", "array of tables", "the daemon serves no HTTP port"),
		}},
		{header: "[pack]", doc: "The pack.", keys: []key{
			becomes("name", "string", "`GC_PACK_NAME` of its orders; required"),
			becomes("schema", "integer", "the version of the format, 1 or 2; required"),
			becomes("includes", "array of strings", "other packs, as paths relative to this one"),
			becomes("requires", "array of tables", "agents (`agent`, `scope`) that must exist in the city or the rig"),
			becomes("city_agents", "array of strings",
				"agents of the city; other agents without a `scope` belong to rigs"),
			becomes("version", "string", "nothing; it is for people"),
			becomes("description", "string", "nothing; it is for people"),
			ignored("requires_gc", "string", "it is about the version of Gas City"),
		}},
		{header: "[[named_session]]", doc: "Sessions of agents.", keys: []key{
			becomes("template", "string", "nothing; the agent itself runs"),
			becomes("mode", "string", "nothing if it is `always`; other modes are not supported"),
			becomes("scope", "string", "nothing; the agent's own value applies"),
			becomes("dir", "string", "nothing; the agent's own value applies"),
			ignored("name", "string", "a session is named after its agent"),
		}},
		{header: "[orders]", doc: "Settings of all orders. An order is a file in `orders/` of the city or of a pack: " +
			"`orders/NAME.toml`, `orders/NAME/order.toml` or `formulas/orders/NAME/order.toml`. An order of the city " +
			"replaces those of its packs with the same name. An order of a rig's pack is called `RIG--NAME`. The " +
			"keys are those of an `[[order]]`; `bead.closed` becomes `task.closed`. An order with a `formula` " +
			"creates one " +
			"task of that name; its text is the description and the steps in `formulas/NAME.toml` (or " +
			"`NAME.formula.toml`), without replacing variables. The environment has `GC_CITY`, `ORDER_DIR`, " +
			"`PACK_DIR`, `GC_PACK_NAME`, and in a rig `GC_RIG` and `GC_RIG_ROOT`.", keys: []key{
			becomes("skip", "array of strings", "`skip`, for the city and all rigs"),
			becomes("max_timeout", "duration", "`max_timeout`"),
			becomes("overrides", "array of tables", "`[[orders.overrides]]`; `rig` names the rig"),
		}},
		{header: "[providers.*]", doc: "Commands by name.", keys: []key{
			becomes("command", "string",
				"the command of its agents, without further options; default: the name of the provider"),
			becomes("start_command", "string", "the same"),
			becomes("args", "array of strings", "arguments of agents that have none"),
			becomes("env", "table of strings", "variables, in addition to those of each agent"),
			becomes("base", "string", "`builtin:claude` is the program `claude`"),
			becomes("display_name", "string", "nothing; it is for people"),
			ignored("prompt_mode", "string", prompts), ignored("prompt_flag", "string", prompts),
			ignored("ready_delay_ms", "integer", "an agent is ready when its process exists"),
			ignored("ready_prompt_prefix", "string", "an agent is ready when its process exists"),
			ignored("process_names", "array of strings", "Coppice watches the process itself"),
			ignored("resume_flag", "string", provided), ignored("resume_style", "string", provided),
			ignored("resume_command", "string", provided), ignored("session_id_flag", "string", provided),
			ignored("option_defaults", "table", provided), ignored("options_schema", "array of tables", provided),
			ignored("args_append", "array of strings", provided), ignored("permission_modes", "table", provided),
			ignored("supports_acp", "boolean", "agents are OS processes"),
			ignored("supports_hooks", "boolean", provided), ignored("emits_permission_warning", "boolean", provided),
			ignored("instructions_file", "string", provided),
		}},
		{header: "[[agent]]", doc: "In Coppice, an agent is called `name`, or `dir--name` if it has a `dir`. " +
			"In commands, `{{.CityRoot}}`, `{{.CityName}}`, `{{.ConfigDir}}` (the directory of its " +
			"pack, or of the city), `{{.Agent}}`, `{{.AgentBase}}`, `{{.Rig}}`, `{{.RigRoot}}`, `{{.WorkDir}}` and " +
			"`{{.Session}}` are replaced.", keys: []key{
			becomes("name", "string", "`name`, with `dir--` in front"),
			becomes("dir", "string", "the rig that it belongs to, or its directory"),
			becomes("work_dir", "string", "the directory that its command runs in, created if missing; relative to "+
				"the city. `dir` in Coppice is then the city"),
			becomes("suspended", "boolean", "`suspended`"),
			becomes("start_command", "string", "`command`. A relative path is looked up in the agent's pack first"),
			becomes("provider", "string", "`command`, from the provider"),
			becomes("args", "array of strings", "arguments of `command`"),
			becomes("env", "table of strings", "`env`"),
			becomes("pre_start", "array of strings", "`on_waking`: shell commands, one after the other, in the city's "+
				"directory, until one fails"),
			becomes("session_setup", "array of strings",
				"`on_start`: shell commands, one after the other. Failures are only reported"),
			becomes("session_setup_script", "string",
				"runs after `session_setup`; relative to its file, with a leading `//` to the city"),
			becomes("attach", "boolean", "`terminal`; default true"),
			becomes("idle_timeout", "duration", "`idle_timeout`"),
			becomes("depends_on", "array of strings", "`depends_on`: names with or without their `dir/`"),
			becomes("pool", "table", "`[agent.pool]`"),
			becomes("min_active_sessions", "integer", "`[agent.pool] min`"),
			becomes("max_active_sessions", "integer", "`[agent.pool] max`; 1 alone makes no pool"),
			becomes("scale_check", "string", "`[agent.pool] check`"),
			becomes("drain_timeout", "duration", "`[agent.pool] drain_timeout`"),
			becomes("on_boot", "string", "`[agent.pool] on_boot`"),
			becomes("on_death", "string", "`[agent.pool] on_death`"),
			becomes("namepool", "string", "`[agent.pool] namepool`, relative to its file"),
			becomes("description", "string", "nothing; it is for people"),
			becomes("scope", "string", "whether an agent of a pack belongs to the `city` or to `rig`s; default both"),
			becomes("fallback", "boolean", "true: any other agent of the same name replaces it"),
			ignored("session", "string", "agents are OS processes"), ignored("upstream", "string", provided),
			ignored("lifecycle", "string", "agents restart when they exit"),
			ignored("nudge", "string", "Coppice types nothing into a new agent; put it into `args`"),
			ignored("prompt_template", "string", prompts),
			ignored("prompt_mode", "string", prompts), ignored("prompt_flag", "string", prompts),
			ignored("inject_fragments", "array of strings", prompts),
			ignored("append_fragments", "array of strings", prompts),
			ignored("inject_assigned_skills", "boolean", prompts),
			ignored("ready_delay_ms", "integer", "an agent is ready when its process exists"),
			ignored("ready_prompt_prefix", "string", "an agent is ready when its process exists"),
			ignored("process_names", "array of strings", "Coppice watches the process itself"),
			ignored("emits_permission_warning", "boolean", provided), ignored("option_defaults", "table", provided),
			ignored("max_start_failures", "integer", "the limit of `[daemon]` includes failed starts"),
			ignored("work_query", "string", beads), ignored("sling_query", "string", beads),
			ignored("default_sling_formula", "string", "formulas are only the text of tasks"),
			ignored("max_session_age", "duration", "agents have no maximum age"),
			ignored("max_session_age_jitter", "duration", "agents have no maximum age"),
			ignored("assigned_work_defer_limit", "integer", beads),
			ignored("sleep_after_idle", "string", sleep), ignored("wake_mode", "string", sleep),
			ignored("resume_command", "string", provided),
			ignored("install_agent_hooks", "array of strings", provided),
			ignored("hooks_installed", "boolean", provided),
			ignored("skills", "array of strings", provided), ignored("mcp", "array of strings", provided),
			ignored("session_live", "array of strings", tmuxOnly),
			ignored("overlay_dir", "string", "Coppice copies no files"),
			ignored("mouse_mode", "string", tmuxOnly), ignored("tmux_alias", "string", tmuxOnly),
		}},
		{header: "[agent.pool]", doc: "Makes the agent a pool.", keys: []key{
			becomes("min", "integer", "`min`"),
			becomes("max", "integer", "`max`; default `unlimited`"),
			becomes("check", "string", "`check`. A failing check changes nothing; in Gas City it asks for `min`. "+
				"Default: as many as the pool has ready or claimed tasks, which needs `coppice` in PATH"),
			becomes("drain_timeout", "duration", "`drain_timeout`"),
			becomes("on_boot", "string", "`on_boot`"),
			becomes("on_death", "string", "`on_death`"),
			becomes("namepool", "string", "`namepool`"),
		}},
	}
}
