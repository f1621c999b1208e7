package gascity

import "github.com/coppice-dev/coppice/internal/config/toml"

// key is a key of a city.toml, with its meaning in Coppice or the reason why it has none.
type key struct {
	toml.Row // doc says what it becomes, or why it is not supported
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

// tables returns all tables of a city.toml; the first one is the file itself.
func tables() []table {
	const (
		prompts  = "there are no prompts of agents; give it to the program in `start_command` or `args`"
		beads    = "tasks are Coppice's own"
		provided = "programs are started as they are"
		sleep    = "agents do not sleep"
		tmuxOnly = "it is about its tmux sessions"
	)
	return []table{
		{doc: "The file. `include` and patches work as in `coppice.toml`, with files of this kind.", keys: []key{
			becomes("include", "array of strings", "`include`"),
			becomes("workspace", "table", "`[project]`, and what to run where agents do not say so"),
			becomes("daemon", "table", "`[daemon]`. Its limit holds for all agents, also without this table. A "+
				"restart waits for `patrol_interval`, one minute at most, as Gas City's controller starts what has "+
				"crashed at its next tick"),
			becomes("orders", "table", "`[orders]`"),
			becomes("agent", "array of tables", "`[[agent]]`", "agents"),
			becomes("rigs", "array of tables", "directories of agents, and whether their agents are suspended", "rig"),
			becomes("patches", "table", "`[[patches.agent]]`, by `dir` (or `rig`) and `name`, and `[[patches.rigs]]`"),
			becomes("providers", "table", "commands of agents that name a provider", "provider"),
			becomes("session", "table", "where agents run"),
			becomes("imports", "table", "packs of the city, by names, see `[imports.*]`", "import"),
			becomes("packs", "table", "names for packs, see `[packs.*]`"),
			becomes("named_session", "array of tables",
				"nothing if its `mode` is `always`: agents run all the time"),
			ignored("defaults", "table", "it is for rigs that are added; name the packs of each of the `[[rigs]]`"),
			ignored("agent_defaults", "table", "there are no defaults of agents; set the keys of each agent"),
			ignored("agents", "table", "there are no defaults of agents; set the keys of each agent"),
			ignored("global", "table", tmuxOnly), ignored("commands", "array of tables",
				"there is no program `gc` that has them"),
			ignored("beads", "table", beads), ignored("dolt", "table", beads), ignored("storage", "table", beads),
			ignored("maintenance", "table", beads),
			becomes("formulas", "table", "nothing: formulas are files in `formulas/`, see `[orders]`"),
			ignored("convergence", "table", "formulas are just texts of tasks"),
			ignored("api", "table", "the daemon answers on a unix socket"),
			ignored("events", "table", "events are in the log of the project"),
			ignored("mail", "table", "mail is Coppice's own"), ignored("usage", "table", "usage is not counted"),
			ignored("pricing", "array of tables", "usage is not counted"),
			ignored("chat_sessions", "table", sleep), ignored("session_sleep", "table", sleep),
			ignored("upstreams", "table", provided),
			ignored("service", "array of tables", "there is no HTTP service of the daemon"),
			ignored("webhook", "array of tables", "there is no HTTP service of the daemon"),
			ignored("webhooks", "table", "there is no HTTP service of the daemon"),
			ignored("github", "table", "repositories are not watched"),
			ignored("extmsg", "table", "messages come from agents and people"),
			ignored("doctor", "table", "`coppice doctor` has no settings"),
		}},
		{header: "[workspace]", doc: "The city as a whole.", keys: []key{
			becomes("name", "string", "`[project] name`"),
			becomes("suspended", "boolean", "`[project] suspended`"),
			becomes("start_command", "string",
				"the command of agents that have neither `start_command` nor `provider`"),
			becomes("provider", "string", "the provider of agents that have neither, where there is no "+
				"`start_command` here, either"),
			ignored("session_template", "string", "sessions have the names of their agents"),
			ignored("max_active_sessions", "integer", "each pool has a bound of its own"),
			becomes("includes", "array of strings", "packs of the city, as paths relative to "+
				"that, or names of `[packs]`"),
			ignored("default_rig_includes", "array of strings",
				"it is for rigs that are added; name the packs of each of the `[[rigs]]`"),
			ignored("install_agent_hooks", "array of strings", provided),
			ignored("global_fragments", "array of strings", prompts),
			ignored("isolation", "string", "agents run in their `dir`"),
			ignored("prefix", "string", beads),
		}},
		{header: "[daemon]", doc: "How the fleet is kept.", keys: []key{
			becomes("patrol_interval", "duration", "`patrol_interval`"),
			becomes("max_restarts", "integer", "`max_restarts`, 5 by default; what is negative is no limit"),
			becomes("restart_window", "duration", "`restart_window`"),
			becomes("shutdown_timeout", "duration", "`shutdown_timeout`"),
			becomes("drift_drain_timeout", "duration", "`drift_drain_timeout`"),
			becomes("wisp_gc_interval", "duration", "`gc_interval`"),
			becomes("wisp_ttl", "duration", "`ttl`"),
			ignored("max_wakes_per_tick", "integer", "starts are bounded by `max_parallel_starts`, not by the tick"),
			ignored("probe_concurrency", "integer", "checks do not hold each other up"),
			ignored("tick_debounce", "duration", "what happens does not wait for a tick"),
			ignored("formula_v2", "boolean", "formulas are just texts of tasks"),
			ignored("graph_workflows", "boolean", "formulas are just texts of tasks"),
			ignored("observe_paths", "array of strings", "sessions of language models are not read"),
			ignored("nudge_dispatcher", "string", "there is no dispatcher"),
			ignored("start_ready_timeout", "duration", "readiness has a time of its own for each agent"),
			ignored("auto_restart_on_drift", "boolean",
				"agents are restarted when the file says something else of them"),
		}},
		{header: "[session]", doc: "Where agents run.", keys: []key{
			becomes("provider", "string", "`tmux` is `runtime = \"tmux\"` and `subprocess` a process with pipes; "+
				"without it, an agent is a process with a terminal, which `coppice attach` shows. Any other runs "+
				"as without it, and is named"),
			becomes("setup_timeout", "duration", "the `timeout` of `pre_start` and `session_setup`"),
			ignored("startup_timeout", "duration", "an agent is ready when its process exists"),
			ignored("socket", "string", "there is one tmux server for each project"),
			ignored("nudge_ready_timeout", "duration", prompts), ignored("nudge_retry_interval", "duration", prompts),
			ignored("nudge_lock_timeout", "duration", prompts),
			ignored("debounce_ms", "integer", tmuxOnly), ignored("display_ms", "integer", tmuxOnly),
			ignored("remote_match", "string", "all agents run on this machine"),
			ignored("k8s", "table", "all agents run on this machine"),
			ignored("acp", "table", "agents are processes"),
			ignored("hybrid", "table", "all agents run on this machine"),
		}},
		{header: "[[rigs]]", doc: "Projects that agents work in.", keys: []key{
			becomes("name", "string", "an agent with this `dir` belongs to it"),
			becomes("path", "string", "the directory of its agents"),
			becomes("suspended", "boolean", "suspends its agents"),
			ignored("prefix", "string", beads), ignored("default_branch", "string", "there are no worktrees"),
			becomes("includes", "array of strings", "packs of the rig, as paths relative to the "+
				"city, or names of `[packs]`"),
			becomes("imports", "table", "packs of the rig, by names, see `[imports.*]`"),
			becomes("overrides", "array of tables", "changes of the agents of its packs: as "+
				"`[[patches.agent]]`, but `agent` says which"),
			becomes("patches", "array of tables", "the same as `overrides`"),
			ignored("formulas_dir", "string", "formulas are just texts of tasks"),
			ignored("default_sling_target", "string", beads),
			ignored("session_sleep", "table", sleep),
			ignored("max_active_sessions", "integer", "each pool has a bound of its own"),
			ignored("dolt_host", "string", beads), ignored("dolt_port", "string", beads),
		}},
		{header: "[imports.*]", doc: "A pack: its agents are called `IMPORT__NAME`, in a rig `RIG--IMPORT__NAME`; " +
			"`depends_on`, `pool` and patches may leave the import out.", keys: []key{
			becomes("source", "string", "the path of its directory, relative to the city, in a pack to that; `//` "+
				"in front means the city. Any that is not in a directory is named, and not read"),
			becomes("export", "boolean", "of a pack in a pack: its agents come by the name of the outer one"),
			becomes("transitive", "boolean", "with false, the packs that it names itself are left out"),
			becomes("shadow", "string", "nothing: agents of two imports have two names"),
			ignored("version", "string", "packs are read as they are in their directories"),
		}},
		{header: "[packs.*]", doc: "A name for a pack.", keys: []key{
			becomes("source", "string", "as in `[imports.*]`"),
			ignored("ref", "string", "packs are read as they are in their directories"),
			ignored("path", "string", "packs are read as they are in their directories"),
		}},
		{header: "pack.toml", doc: "The file of a pack, in its directory. Agents are declared in it, or are " +
			"directories `agents/NAME/` with an `agent.toml` that has the keys of `[[agent]]`, and a " +
			"`namepool.txt`. Orders are files in `orders/`. If there is such a file next to a `city.toml`, the " +
			"city is a pack itself, and `city.toml` takes precedence.", keys: []key{
			becomes("pack", "table", "see `[pack]`"),
			becomes("imports", "table", "other packs, by names, see `[imports.*]`", "import"),
			becomes("agent", "array of tables", "`[[agent]]`", "agents"),
			becomes("providers", "table", "those that the city does not have", "provider"),
			becomes("patches", "table", "changes of its own agents, and of those of packs that "+
				"it names; by `name` alone"),
			becomes("named_session", "array of tables",
				"nothing if its `mode` is `always`: agents run all the time"),
			ignored("agent_defaults", "table", "there are no defaults of agents; set the keys of each agent"),
			ignored("agents", "table", "there are no defaults of agents; set the keys of each agent"),
			becomes("formulas", "table", "nothing: formulas are files in `formulas/`, see `[orders]`"),
			ignored("global", "table", tmuxOnly), ignored("commands", "array of tables",
				"there is no program `gc` that has them"),
			ignored("doctor", "array of tables", "`coppice doctor` has no settings"),
			ignored("service", "array of tables", "there is no HTTP service of the daemon"),
		}},
		{header: "[pack]", doc: "What a pack is.", keys: []key{
			becomes("name", "string", "`GC_PACK_NAME` of its orders; it has to be there"),
			becomes("schema", "integer", "the form of the file, 1 or 2; it has to be there"),
			becomes("includes", "array of strings", "other packs, as paths relative to this one"),
			becomes("requires", "array of tables", "agents (`agent`, `scope`) that have to be "+
				"in the city, or in the rig"),
			becomes("city_agents", "array of strings",
				"agents for the city; those that have no `scope` and are not in it are for rigs"),
			becomes("version", "string", "nothing: it is for people"),
			becomes("description", "string", "nothing: it is for people"),
			ignored("requires_gc", "string", "it is about its own version"),
		}},
		{header: "[[named_session]]", doc: "Sessions of agents.", keys: []key{
			becomes("template", "string", "nothing: the agent itself runs"),
			becomes("mode", "string", "nothing, if it is `always`; anything else is not supported: agents run "+
				"all the time, or are pools"),
			becomes("scope", "string", "nothing: that of the agent holds"),
			becomes("dir", "string", "nothing: that of the agent holds"),
			ignored("name", "string", "sessions have the names of their agents"),
		}},
		{header: "[orders]", doc: "What holds for all orders. Each of them is a file in `orders/` of the city or " +
			"of a pack; `orders/NAME/order.toml` and `formulas/orders/NAME/order.toml` are read, too. One of the " +
			"city takes the place of those of its packs that have its name. " +
			"An order of a pack of a rig is called `RIG--NAME`. Its keys are those of an `[[order]]`; the " +
			"`bead.closed` of Gas City is `task.closed`. Where it has a `formula`, it makes one task of that name, " +
			"with what `formulas/NAME.toml` (or `NAME.formula.toml`) describes and its steps as text; variables in " +
			"it are not replaced. It finds `GC_CITY`, `ORDER_DIR`, `PACK_DIR`, `GC_PACK_NAME`, and in a rig " +
			"`GC_RIG` and `GC_RIG_ROOT`.", keys: []key{
			becomes("skip", "array of strings", "`skip`: in the city, and in all rigs"),
			becomes("max_timeout", "duration", "`max_timeout`"),
			becomes("overrides", "array of tables", "`[[orders.overrides]]`; `rig` says of which rig"),
		}},
		{header: "[providers.*]", doc: "Commands by name.", keys: []key{
			becomes("command", "string", "the command of its agents; the name of the provider where there is none. "+
				"No options are added to it"),
			becomes("start_command", "string", "the same"),
			becomes("args", "array of strings", "its arguments, where the agent has none"),
			becomes("env", "table of strings", "variables, in addition to those of the agent"),
			becomes("base", "string", "`builtin:claude` stands for the program `claude`"),
			becomes("display_name", "string", "nothing: it is for people"),
			ignored("prompt_mode", "string", prompts), ignored("prompt_flag", "string", prompts),
			ignored("ready_delay_ms", "integer", "an agent is ready when its process exists"),
			ignored("ready_prompt_prefix", "string", "an agent is ready when its process exists"),
			ignored("process_names", "array of strings", "the process itself is watched"),
			ignored("resume_flag", "string", provided), ignored("resume_style", "string", provided),
			ignored("resume_command", "string", provided), ignored("session_id_flag", "string", provided),
			ignored("option_defaults", "table", provided), ignored("options_schema", "array of tables", provided),
			ignored("args_append", "array of strings", provided), ignored("permission_modes", "table", provided),
			ignored("supports_acp", "boolean", "agents are processes"),
			ignored("supports_hooks", "boolean", provided), ignored("emits_permission_warning", "boolean", provided),
			ignored("instructions_file", "string", provided),
		}},
		{header: "[[agent]]", doc: "An agent is called `name`, or `dir--name` if it has a `dir`: that is its name " +
			"in Coppice. In commands, `{{.CityRoot}}`, `{{.CityName}}`, `{{.ConfigDir}}` (the directory of its " +
			"pack, or of the city), `{{.Agent}}`, `{{.AgentBase}}`, `{{.Rig}}`, `{{.RigRoot}}`, `{{.WorkDir}}` and " +
			"`{{.Session}}` are replaced.", keys: []key{
			becomes("name", "string", "`name`, with `dir--` in front"),
			becomes("dir", "string", "the rig that it belongs to, or its directory"),
			becomes("work_dir", "string", "a directory that its command makes, if it is not there, and runs in; "+
				"relative to the city. Its `dir` is then that of the city"),
			becomes("suspended", "boolean", "`suspended`"),
			becomes("start_command", "string", "`command`. Where it begins with a relative path of a program that "+
				"is in the pack of the agent, that is meant"),
			becomes("provider", "string", "`command`: that of the provider"),
			becomes("args", "array of strings", "arguments behind that"),
			becomes("env", "table of strings", "`env`"),
			becomes("pre_start", "array of strings", "`on_waking`: one shell command after the other, in the "+
				"directory of the city, up to the first that fails"),
			becomes("session_setup", "array of strings",
				"`on_start`: one after the other. What fails is reported, and harms nothing"),
			becomes("session_setup_script", "string",
				"the end of that; relative to its file, with `//` in front to the city"),
			becomes("attach", "boolean", "`terminal`; true if it is not there"),
			becomes("idle_timeout", "duration", "`idle_timeout`"),
			becomes("depends_on", "array of strings", "`depends_on`: names with or without their `dir/`"),
			becomes("pool", "table", "`[agent.pool]`"),
			becomes("min_active_sessions", "integer", "`[agent.pool] min`"),
			becomes("max_active_sessions", "integer", "`[agent.pool] max`; by itself, 1 makes no pool"),
			becomes("scale_check", "string", "`[agent.pool] check`"),
			becomes("drain_timeout", "duration", "`[agent.pool] drain_timeout`"),
			becomes("on_boot", "string", "`[agent.pool] on_boot`"),
			becomes("on_death", "string", "`[agent.pool] on_death`"),
			becomes("namepool", "string", "`[agent.pool] namepool`, relative to its file"),
			becomes("description", "string", "nothing: it is for people"),
			becomes("scope", "string", "`city` or `rig`: of an agent of a pack, for which of them it "+
				"is; without it, for both"),
			becomes("fallback", "boolean", "gives way to any other agent of its name"),
			ignored("session", "string", "agents are processes"), ignored("upstream", "string", provided),
			ignored("lifecycle", "string", "what ends is started again; `restart` says when not"),
			ignored("nudge", "string", "nothing is typed into agents after their start; give it "+
				"to the program in `args`"), ignored("prompt_template", "string", prompts),
			ignored("prompt_mode", "string", prompts), ignored("prompt_flag", "string", prompts),
			ignored("inject_fragments", "array of strings", prompts),
			ignored("append_fragments", "array of strings", prompts),
			ignored("inject_assigned_skills", "boolean", prompts),
			ignored("ready_delay_ms", "integer", "an agent is ready when its process exists"),
			ignored("ready_prompt_prefix", "string", "an agent is ready when its process exists"),
			ignored("process_names", "array of strings", "the process itself is watched"),
			ignored("emits_permission_warning", "boolean", provided), ignored("option_defaults", "table", provided),
			ignored("max_start_failures", "integer", "the limit of `[daemon]` counts failed starts, too"),
			ignored("work_query", "string", beads), ignored("sling_query", "string", beads),
			ignored("default_sling_formula", "string", "formulas are just texts of tasks"),
			ignored("max_session_age", "duration", "agents do not grow too old"),
			ignored("max_session_age_jitter", "duration", "agents do not grow too old"),
			ignored("assigned_work_defer_limit", "integer", beads),
			ignored("sleep_after_idle", "string", sleep), ignored("wake_mode", "string", sleep),
			ignored("resume_command", "string", provided),
			ignored("install_agent_hooks", "array of strings", provided),
			ignored("hooks_installed", "boolean", provided),
			ignored("skills", "array of strings", provided), ignored("mcp", "array of strings", provided),
			ignored("session_live", "array of strings", tmuxOnly),
			ignored("overlay_dir", "string", "files are not copied"),
			ignored("mouse_mode", "string", tmuxOnly), ignored("tmux_alias", "string", tmuxOnly),
		}},
		{header: "[agent.pool]", doc: "Where there is such a table, the agent is a pool.", keys: []key{
			becomes("min", "integer", "`min`"),
			becomes("max", "integer", "`max`; `unlimited` if it is not there"),
			becomes("check", "string", "`check`. One that fails changes nothing; in Gas City it asks for `min`. "+
				"Without it, as many are wanted as there are tasks of the pool that are ready or in progress: "+
				"`coppice`, which it asks, has to be in PATH"),
			becomes("drain_timeout", "duration", "`drain_timeout`"),
			becomes("on_boot", "string", "`on_boot`"),
			becomes("on_death", "string", "`on_death`"),
			becomes("namepool", "string", "`namepool`"),
		}},
	}
}
