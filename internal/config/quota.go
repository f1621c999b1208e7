package config

import (
	"strconv"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// quotaForm is a [[quota]] while it is read.
type quotaForm struct {
	spec.Quota
	table *toml.Value
}

func quotaTable() toml.Table[quotaForm] {
	return toml.Table[quotaForm]{
		Header: "[[quota]]",
		Doc: "An account of a command line of a language model, and the agents that use it. When it is used up, they " +
			"wait, or go on with another account. The first `[[quota]]` that is for an agent is its own. Changes " +
			"apply to the next start of an agent. See [Quotas](quotas.md).",
		Example: `[[quota]]
name = "main"
cli = "claude"
next = "spare"

[[quota]]
name = "spare"
cli = "claude"
env = { CLAUDE_CONFIG_DIR = "/home/me/.claude-spare" }

[[agent]]
name = "coder"
command = "claude -p --output-format stream-json --verbose --model opus"
`,
		Keys: []toml.Key[quotaForm]{
			{Name: "name", Type: "string", Default: toml.Required, Doc: "unique among the quotas: letters, digits, " +
				"dots, dashes and underscores. Agents find it in `COPPICE_ACCOUNT`", Also: []string{"id"},
				Read: toml.Text(func(q *quotaForm) *string { return &q.Name })},
			{Name: "cli", Type: "claude, codex, gemini, opencode, copilot", Default: toml.Required,
				Doc: "the command line of its agents", Also: []string{"command", "provider", "vendor"},
				Read: func(r *toml.Reader, v *toml.Value, into *quotaForm) {
					setting.ReadCLI(agentcli.CLIs(), func(q *quotaForm) *agentcli.CLI { return &q.CLI })(r, v, into)
					if into.CLI == agentcli.Plain {
						r.Fail(v, "", "cli is plain, expected the command line of a language model")
					}
				}},
			{Name: "agents", Type: "string or array of strings", Default: "all of this command line",
				Doc: "the agents that it is for, as names or paths of agents or of supervisors above them, or as " +
					"patterns of these, such as `\"night/*\"`; paths may omit the project",
				Also: []string{"agent", "paths", "path", "members", "for", "used_by"},
				Read: patterns(func(q *quotaForm) *[]string { return &q.Agents })},
			{Name: "models", Type: "string or array of strings", Default: "all",
				Doc: "patterns of the models of its agents, such as `\"*opus*\"`: what `--model` or `-m` in the " +
					"command says, or else `ANTHROPIC_MODEL`, `GEMINI_MODEL` or `COPILOT_MODEL` in `env`. An agent " +
					"whose model is not known matches none", Also: []string{"model"},
				Read: patterns(func(q *quotaForm) *[]string { return &q.Models })},
			{Name: "env", Type: "table of strings", Doc: "the variables that choose the account, such as " +
				"`CLAUDE_CONFIG_DIR`, `CODEX_HOME` or a key; they take precedence over those of the agent. `~` is " +
				"not expanded", Also: []string{"environment", "variables", "account"},
				Read: toml.StringMap("a table of strings", func(q *quotaForm) *map[string]string { return &q.Env })},
			{Name: "env_file", Type: "string or array of strings", Doc: "files with such variables, as the " +
				"`env_file` of an agent; they are the place for keys. They are read at each start, and `env` takes " +
				"precedence", Also: []string{"env_files", "envfile", "environment_file", "dotenv", "key_file"},
				Read: func(r *toml.Reader, v *toml.Value, into *quotaForm) {
					var a agent
					readEnvFiles(r, v, &a)
					into.EnvFiles = a.EnvFiles
				}},
			{Name: "next", Type: "string", Doc: "the quota that its agents go on with when it is used up. They make " +
				"one such hop: the `next` of that quota is for its own agents",
				Also: []string{"fallback", "then", "else", "failover", "backup", "spare"},
				Read: toml.Text(func(q *quotaForm) *string { return &q.Next })},
		},
	}
}

// finishQuotas checks the quotas of a tree, and returns them. tree is nil if it has faults.
func (f *file) finishQuotas(r *toml.Reader, tree *spec.Tree, dir string, onDisk bool) []spec.Quota {
	var all []spec.Quota
	for i := range f.quotas {
		q := &f.quotas[i]
		for n, file := range q.EnvFiles {
			q.EnvFiles[n] = toml.Absolute(dir, file)
		}
		all = append(all, q.Quota)
	}
	if tree == nil || r.Count() > 0 {
		return nil // agents that are not known could be those that are meant
	}
	places := func(p spec.Problem) *toml.Value { return f.quotas[p.Decl].table.Find(p.Path...) }
	for _, p := range spec.CheckQuotas(tree, all, f.root.Program != "") {
		f.fail(r, p, func(decl int) *toml.Value { return f.quotas[decl].table })
	}
	for i, q := range all {
		for n, file := range q.EnvFiles {
			if !onDisk {
				continue
			}
			if _, err := envfile.Read(file); err != nil {
				at := places(spec.Problem{Decl: i, Path: []string{"env_file", strconv.Itoa(n)}})
				r.Fail(at, "", "env_file: %v", err)
			}
		}
	}
	if r.Count() == 0 && f.root.Program == "" {
		for _, i := range spec.UnusedQuotas(tree, all) {
			r.Notice(f.quotas[i].table, "no agent uses the quota %s: none runs %s and matches it before another "+
				"quota, and it is the next of none that is used", spec.Quote(all[i].Name), all[i].CLI)
		}
	}
	return all
}
