package config

// cityKey is a key of a city.toml: what becomes of it, or why nothing does.
type cityKey struct {
	row    // doc says what it becomes, or why it is not supported
	unused bool
}

// cityTable is a table of a city.toml.
type cityTable struct {
	header string
	doc    string
	keys   []cityKey
}

func (t cityTable) section() section {
	s := section{header: t.header, doc: t.doc}
	for _, k := range t.keys {
		s.rows = append(s.rows, k.row)
	}
	return s
}

func (t cityTable) key(name string) *cityKey {
	for i := range t.keys {
		if t.keys[i].name == name {
			return &t.keys[i]
		}
	}
	return nil
}

func becomes(name, typ, doc string, also ...string) cityKey {
	return cityKey{row: row{name: name, typ: typ, doc: doc, also: also}}
}

func ignored(name, typ, because string) cityKey {
	return cityKey{row: row{name: name, typ: typ, doc: because}, unused: true}
}

// cityTables are all tables of a city.toml; the first one is the file itself.
func cityTables() []cityTable {
	const (
		packs    = "packs are not read; write their agents as `[[agent]]`"
		prompts  = "there are no prompts of agents; give it to the program in `start_command` or `args`"
		beads    = "tasks are Coppice's own"
		provided = "programs are started as they are"
		sleep    = "agents do not sleep"
		tmuxOnly = "it is about its tmux sessions"
	)
	return []cityTable{
		{doc: "The file. `include` and patches work as in `coppice.toml`, with files of this kind.", keys: []cityKey{
			becomes("include", "array of strings", "`include`"),
			becomes("workspace", "table", "`[project]`, and what to run where agents do not say so"),
			becomes("daemon", "table", "`[daemon]`. Its limit holds for all agents, also without this table"),
			becomes("orders", "table", "`[orders]`"),
			becomes("agent", "array of tables", "`[[agent]]`", "agents"),
			becomes("rigs", "array of tables", "directories of agents, and whether these are suspended", "rig"),
			becomes("patches", "table", "`[[patches.agent]]`, by `dir` (or `rig`) and `name`, and `[[patches.rigs]]`"),
			becomes("providers", "table", "commands for agents that name a provider", "provider"),
			becomes("session", "table", "where agents run"),
			ignored("imports", "table", packs), ignored("packs", "table", packs), ignored("pack", "table", packs), ignored("defaults", "table", packs),
			ignored("agent_defaults", "table", "there are no defaults of agents; write what they have"),
			ignored("named_session", "array of tables", "sessions have the names of their agents"),
			ignored("beads", "table", beads), ignored("dolt", "table", beads), ignored("storage", "table", beads), ignored("maintenance", "table", beads),
			ignored("formulas", "table", "there are no formulas"), ignored("convergence", "table", "there are no formulas"),
			ignored("api", "table", "the daemon answers on a unix socket"),
			ignored("events", "table", "events are in the log of the project"), ignored("mail", "table", "mail is Coppice's own"), ignored("usage", "table", "use is not counted"), ignored("pricing", "array of tables", "use is not counted"),
			ignored("chat_sessions", "table", sleep), ignored("session_sleep", "table", sleep),
			ignored("upstreams", "table", provided),
			ignored("service", "array of tables", "there is no HTTP service of the daemon"), ignored("webhook", "array of tables", "there is no HTTP service of the daemon"), ignored("webhooks", "table", "there is no HTTP service of the daemon"),
			ignored("github", "table", "repositories are not watched"), ignored("extmsg", "table", "messages come from agents and people"), ignored("doctor", "table", "`coppice doctor` has no settings"),
		}},
		{header: "[workspace]", doc: "The city as a whole.", keys: []cityKey{
			becomes("name", "string", "`[project] name`"),
			becomes("suspended", "boolean", "`[project] suspended`"),
			becomes("start_command", "string", "the command of agents that have neither `start_command` nor `provider`"),
			becomes("provider", "string", "the provider of agents that have neither, where there is no `start_command` here, either"),
			ignored("session_template", "string", "sessions have the names of their agents"),
			ignored("max_active_sessions", "integer", "each pool has a bound of its own"),
			ignored("includes", "array of strings", packs), ignored("default_rig_includes", "array of strings", packs),
			ignored("install_agent_hooks", "array of strings", provided), ignored("global_fragments", "array of strings", prompts), ignored("isolation", "string", "agents run in their `dir`"),
			ignored("prefix", "string", beads),
		}},
		{header: "[daemon]", doc: "How the fleet is kept.", keys: []cityKey{
			becomes("patrol_interval", "duration", "`patrol_interval`"),
			becomes("max_restarts", "integer", "`max_restarts`; what is negative is no limit"),
			becomes("restart_window", "duration", "`restart_window`"),
			becomes("shutdown_timeout", "duration", "`shutdown_timeout`"),
			becomes("drift_drain_timeout", "duration", "`drift_drain_timeout`"),
			becomes("wisp_gc_interval", "duration", "`gc_interval`"),
			becomes("wisp_ttl", "duration", "`ttl`"),
			ignored("max_wakes_per_tick", "integer", "starts are bounded by `max_parallel_starts`, not by the tick"), ignored("probe_concurrency", "integer", "checks do not hold each other up"),
			ignored("tick_debounce", "duration", "what happens does not wait for a tick"), ignored("formula_v2", "boolean", "there are no formulas"), ignored("graph_workflows", "boolean", "there are no formulas"),
			ignored("observe_paths", "array of strings", "sessions of language models are not read"), ignored("nudge_dispatcher", "string", "there is no dispatcher"),
			ignored("start_ready_timeout", "duration", "readiness has a time of its own for each agent"), ignored("auto_restart_on_drift", "boolean", "agents are restarted when the file says something else of them"),
		}},
		{header: "[session]", doc: "Where agents run.", keys: []cityKey{
			becomes("provider", "string", "`tmux` is `runtime = \"tmux\"` and `subprocess` a process with pipes; without it, an agent is a process with a terminal, which `coppice attach` shows. Any other runs as without it, and is named"),
			becomes("setup_timeout", "duration", "the `timeout` of `pre_start` and `session_setup`"),
			ignored("startup_timeout", "duration", "an agent is ready when its process exists"), ignored("socket", "string", "there is one tmux server for each project"),
			ignored("nudge_ready_timeout", "duration", prompts), ignored("nudge_retry_interval", "duration", prompts), ignored("nudge_lock_timeout", "duration", prompts),
			ignored("debounce_ms", "integer", tmuxOnly), ignored("display_ms", "integer", tmuxOnly), ignored("remote_match", "string", "all agents run on this machine"),
			ignored("k8s", "table", "all agents run on this machine"), ignored("acp", "table", "agents are processes"), ignored("hybrid", "table", "all agents run on this machine"),
		}},
		{header: "[[rigs]]", doc: "Projects that agents work in.", keys: []cityKey{
			becomes("name", "string", "an agent with this `dir` belongs to it"),
			becomes("path", "string", "the directory of its agents"),
			becomes("suspended", "boolean", "suspends its agents"),
			ignored("prefix", "string", beads), ignored("default_branch", "string", "there are no worktrees"), ignored("includes", "array of strings", packs), ignored("imports", "table", packs),
			ignored("overrides", "array of tables", packs), ignored("patches", "array of tables", packs), ignored("formulas_dir", "string", "there are no formulas"), ignored("default_sling_target", "string", beads),
			ignored("session_sleep", "table", sleep), ignored("max_active_sessions", "integer", "each pool has a bound of its own"), ignored("dolt_host", "string", beads), ignored("dolt_port", "string", beads),
		}},
		{header: "[providers.*]", doc: "Commands by name.", keys: []cityKey{
			becomes("command", "string", "the command of its agents; the name of the provider where there is none"),
			becomes("args", "array of strings", "its arguments, where the agent has none"),
			becomes("env", "table of strings", "variables, beside those of the agent"),
			becomes("base", "string", "`builtin:claude` stands for the program `claude`"),
			becomes("display_name", "string", "nothing: it is for people"),
			ignored("prompt_mode", "string", prompts), ignored("prompt_flag", "string", prompts), ignored("ready_delay_ms", "integer", "an agent is ready when its process exists"),
			ignored("ready_prompt_prefix", "string", "an agent is ready when its process exists"), ignored("process_names", "array of strings", "the process itself is watched"),
			ignored("resume_flag", "string", provided), ignored("resume_style", "string", provided), ignored("resume_command", "string", provided), ignored("session_id_flag", "string", provided),
			ignored("option_defaults", "table", provided), ignored("options_schema", "array of tables", provided), ignored("args_append", "array of strings", provided), ignored("permission_modes", "table", provided),
			ignored("supports_acp", "boolean", "agents are processes"), ignored("supports_hooks", "boolean", provided), ignored("emits_permission_warning", "boolean", provided), ignored("instructions_file", "string", provided),
		}},
		{header: "[[agent]]", doc: "An agent is called `name`, or `dir--name` if it has a `dir`: that is its name in Coppice. In commands, `{{.CityRoot}}`, `{{.CityName}}`, `{{.Agent}}`, `{{.AgentBase}}`, `{{.Rig}}`, `{{.RigRoot}}`, `{{.WorkDir}}` and `{{.Session}}` are replaced.", keys: []cityKey{
			becomes("name", "string", "`name`, with `dir--` in front"),
			becomes("dir", "string", "the rig that it belongs to, or its directory"),
			becomes("work_dir", "string", "`dir`"),
			becomes("suspended", "boolean", "`suspended`"),
			becomes("start_command", "string", "`command`"),
			becomes("provider", "string", "`command`: that of the provider"),
			becomes("args", "array of strings", "arguments behind that"),
			becomes("env", "table of strings", "`env`"),
			becomes("pre_start", "array of strings", "`on_waking`: one shell command after the other, up to the first that fails"),
			becomes("session_setup", "array of strings", "`on_start`: one after the other. What fails is reported, and harms nothing"),
			becomes("session_setup_script", "string", "the end of that"),
			becomes("attach", "boolean", "`terminal`; true if it is not there"),
			becomes("idle_timeout", "duration", "`idle_timeout`"),
			becomes("depends_on", "array of strings", "`depends_on`: names with or without their `dir/`"),
			becomes("pool", "table", "`[agent.pool]`"),
			becomes("min_active_sessions", "integer", "`[agent.pool] min`"), becomes("max_active_sessions", "integer", "`[agent.pool] max`; by itself, 1 makes no pool"), becomes("scale_check", "string", "`[agent.pool] check`"),
			becomes("drain_timeout", "duration", "`[agent.pool] drain_timeout`"), becomes("on_boot", "string", "`[agent.pool] on_boot`"), becomes("on_death", "string", "`[agent.pool] on_death`"), becomes("namepool", "string", "`[agent.pool] namepool`"),
			becomes("description", "string", "nothing: it is for people"),
			ignored("scope", "string", packs), ignored("session", "string", "agents are processes"), ignored("upstream", "string", provided), ignored("lifecycle", "string", "what ends is started again; `restart` says when not"),
			ignored("nudge", "string", "nothing is typed into agents after their start; give it to the program in `args`"), ignored("prompt_template", "string", prompts), ignored("prompt_mode", "string", prompts), ignored("prompt_flag", "string", prompts),
			ignored("inject_fragments", "array of strings", prompts), ignored("append_fragments", "array of strings", prompts), ignored("inject_assigned_skills", "boolean", prompts),
			ignored("ready_delay_ms", "integer", "an agent is ready when its process exists"), ignored("ready_prompt_prefix", "string", "an agent is ready when its process exists"),
			ignored("process_names", "array of strings", "the process itself is watched"), ignored("emits_permission_warning", "boolean", provided), ignored("option_defaults", "table", provided),
			ignored("max_start_failures", "integer", "the limit of `[daemon]` counts failed starts, too"), ignored("work_query", "string", beads), ignored("sling_query", "string", beads), ignored("default_sling_formula", "string", "there are no formulas"),
			ignored("max_session_age", "duration", "agents do not grow too old"), ignored("max_session_age_jitter", "duration", "agents do not grow too old"), ignored("assigned_work_defer_limit", "integer", beads),
			ignored("sleep_after_idle", "string", sleep), ignored("wake_mode", "string", sleep), ignored("resume_command", "string", provided), ignored("install_agent_hooks", "array of strings", provided), ignored("hooks_installed", "boolean", provided),
			ignored("skills", "array of strings", provided), ignored("mcp", "array of strings", provided), ignored("session_live", "array of strings", tmuxOnly), ignored("overlay_dir", "string", "files are not copied"),
			ignored("mouse_mode", "string", tmuxOnly), ignored("tmux_alias", "string", tmuxOnly), ignored("fallback", "boolean", packs),
		}},
		{header: "[agent.pool]", doc: "Where there is such a table, the agent is a pool.", keys: []cityKey{
			becomes("min", "integer", "`min`"),
			becomes("max", "integer", "`max`; `unlimited` if it is not there"),
			becomes("check", "string", "`check`. One that fails changes nothing; in Gas City it asks for `min`"),
			becomes("drain_timeout", "duration", "`drain_timeout`"),
			becomes("on_boot", "string", "`on_boot`"),
			becomes("on_death", "string", "`on_death`"),
			becomes("namepool", "string", "`namepool`"),
		}},
	}
}
