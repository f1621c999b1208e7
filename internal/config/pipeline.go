package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/change/pattern"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// pipelineForm is an [agent.pipeline] while it is read.
type pipelineForm struct {
	pipeline.Settings
	table  *toml.Value
	stages [pipeline.NumStages]stageForm
}

// stageForm is a stage while it is read.
type stageForm struct {
	pipeline.Stage
	off bool
}

// stageType is the type of the key of a stage, and offType of one that can be left out.
const (
	stageType = "string, array of strings or table"
	offType   = "string, array of strings, table or false"
)

func pipelineTable() toml.Table[pipelineForm] {
	return toml.Table[pipelineForm]{
		Header: "[agent.pipeline]",
		Doc: "Makes the agent a worker of a pipeline, or each instance if it is a pool. A worker claims a task, " +
			"takes it through the stages plan, implement, test, security, release and archive in a git worktree of " +
			"its own, reports the outcome, and claims the next task. The command of the agent is what plan, " +
			"implement and security call. A change of these keys, except `tasks`, applies to the next attempt. " +
			"See [Pipelines](pipeline.md).",
		Example: `[[agent]]
name = "fixer"
command = "claude -p --output-format stream-json --verbose --permission-mode acceptEdits"

[agent.pool]
min = 2

[agent.pipeline]
branch = "main"
protected = [".github", "/LICENSE"]
test = { command = "make test", timeout = "10m" }
security = false
`,
		Keys: []toml.Key[pipelineForm]{
			{Name: "repository", Type: "string", Default: "`dir`", Doc: "the git repository, or a directory in it, " +
				"relative to `dir`", Also: []string{"repo", "git", "directory"},
				Read: toml.Text(func(p *pipelineForm) *string { return &p.Repository })},
			{Name: "branch", Type: "string", Default: "the branch that is checked out in `repository`",
				Doc: "the branch that attempts begin from, and that gets the changes", Also: []string{"base", "target",
					"into", "main"},
				Read: toml.Text(func(p *pipelineForm) *string { return &p.Branch })},
			{Name: "tasks", Type: "string", Default: "the name of the agent", Doc: "the pool whose tasks the worker " +
				"takes: with `tasks = \"coder\"` it works at the same tasks as the agent `coder`, and at no " +
				"others. A change restarts the agent",
				Also: []string{"pool", "queue", "task"}, Read: readTasks},
			{Name: "mode", Type: "maintenance, evolution", Default: "maintenance", Doc: "the mode of tasks that no " +
				"rule of `modes` matches: `maintenance` for changes of at most 2 files and 150 lines without tests, " +
				"which are merged when the tests pass; `evolution` for larger ones, which a person reviews",
				Read: toml.OneOf(pipeline.Modes(), func(p *pipelineForm, i int) { p.Mode = pipeline.Modes()[i] })},
			{Name: "modes", Type: rulesType, Doc: "rules that choose the mode of a task, see " +
				"`[[agent.pipeline.modes]]`; the first that matches counts", Also: []string{"rules", "rule"},
				Read: func(r *toml.Reader, v *toml.Value, into *pipelineForm) {
					for _, e := range r.Tables(v) {
						var rule pipeline.Rule
						ruleTable().Read(r, e, &rule)
						if e.Field("mode") == nil {
							r.Fail(e, "", "a rule without mode, expected maintenance or evolution")
						}
						into.Modes = append(into.Modes, rule)
					}
				}},
			patternsKey("protected", "what no change may touch",
				func(p *pipelineForm) *[]string { return &p.Protected }),
			patternsKey("tests", "files that are tests, in addition to the usual names",
				func(p *pipelineForm) *[]string { return &p.Tests }),
			patternsKey("validation", "files that decide about checks, in addition to the usual names",
				func(p *pipelineForm) *[]string { return &p.Validation }),
			{Name: "set_up", Type: "string or array of strings", Doc: "a command, written as `command` is, that runs " +
				"in each new worktree, such as `npm ci`", Also: []string{"setup", "prepare", "install"},
				Read: setting.CommandKey(func(p *pipelineForm) *[]string { return &p.SetUp })},
			{Name: "ports", Type: "integer", Default: "`0`", Doc: fmt.Sprintf("how many free TCP ports each worktree "+
				"gets, from %d to %d, so that tests of several workers do not meet; at most %d. Commands find the "+
				"first in `COPPICE_PORT`, and all in `COPPICE_PORTS`, separated by blanks", pipeline.FirstPort,
				pipeline.LastPort, pipeline.MaxPorts), Also: []string{"port"},
				Read: toml.Int(0, pipeline.MaxPorts, func(p *pipelineForm) *int { return &p.Ports })},
			{Name: "fix_attempts", Type: "integer", Default: fmt.Sprint(pipeline.DefaultFixAttempts),
				Doc:  "how often the model may repair its change in an attempt after the tests have failed",
				Also: []string{"max_fix_attempts", "fixes"},
				Read: toml.Int(0, 100, func(p *pipelineForm) *int { return &p.FixAttempts })},
			{Name: "pull_request", Type: "boolean or table", Default: "false", Doc: "whether each change becomes a " +
				"pull request on GitHub in place of a merge, whatever its mode: git pushes it, and `gh` opens the " +
				"pull request. A table sets more, see `[agent.pipeline.pull_request]`",
				Also: []string{"pull_requests", "pr", "pull-request"}, Read: readPullRequest},
			stageKey(pipeline.Plan, offType, "how the work is planned; `false` for no plan"),
			stageKey(pipeline.Implement, stageType, "how the change is made"),
			stageKey(pipeline.Test, offType, "what checks the change: it exits with 0 if the change is good. `false` "+
				"for no check, so that nothing but the rules of the mode stands between a model and `branch`"),
			stageKey(pipeline.Security, offType, "how the change is reviewed for security; `false` for no review. A "+
				"command that is no language model gets the diff on its standard input, and exits with 0 if it "+
				"is good"),
			stageKey(pipeline.Release, stageType, "a command that makes a pull request in place of the merge, such as "+
				"a script that pushes the branch and calls `gh pr create`. It gets the change as JSON on its standard "+
				"input, and prints the URL"),
			stageKey(pipeline.Archive, stageType, "a command that runs last, such as one that writes a change log. It "+
				"gets the change as JSON on its standard input. The task is done, whatever it does"),
		},
	}
}

func readTasks(r *toml.Reader, v *toml.Value, into *pipelineForm) {
	name, ok := r.Text(v, "the name of a pool")
	if fault := spec.CheckName(name); ok && fault != "" {
		r.Fail(v, "", "tasks: %s", fault)
	}
	into.Tasks = name
}

// patternsKey returns a key whose value is a list of patterns of files.
func patternsKey(name, what string, field func(*pipelineForm) *[]string) toml.Key[pipelineForm] {
	return toml.Key[pipelineForm]{Name: name, Type: "array of strings", Doc: "patterns as in gitignore(5): " + what,
		Read: func(r *toml.Reader, v *toml.Value, into *pipelineForm) {
			*field(into) = readPatterns(r, v)
		}}
}

// readPatterns reads a list of patterns of files.
func readPatterns(r *toml.Reader, v *toml.Value) []string {
	all, ok := r.List(v, "an array of patterns")
	if !ok {
		return nil
	}
	for i, text := range all {
		if _, err := pattern.NewList(text); err != nil {
			r.Fail(v.Elements[i], "", "%s: %v", v.Name, err)
		}
	}
	return all
}

// stageKey returns the key of a stage: a command, a table, or false.
func stageKey(n pipeline.Name, typ, doc string) toml.Key[pipelineForm] {
	return toml.Key[pipelineForm]{Name: n.String(), Type: typ, Doc: doc + "; see `[agent.pipeline.test]`",
		Default: defaultOf(n),
		Read: func(r *toml.Reader, v *toml.Value, into *pipelineForm) {
			s := &into.stages[n]
			switch {
			case v.Kind == toml.KindBool && v.Text == "false" && typ == offType:
				s.off = true
			case v.Kind == toml.KindTable:
				stageTable().Read(r, v, &s.Stage)
			default:
				if argv, ok := setting.ReadCommand(r, v); ok {
					s.Command = argv
				}
			}
		}}
}

// defaultOf returns the default of a stage, in words.
func defaultOf(n pipeline.Name) string {
	switch n {
	case pipeline.Plan, pipeline.Implement, pipeline.Security:
		return "`command` of the agent"
	case pipeline.Test:
		return toml.Required
	case pipeline.Release:
		return "Coppice merges it"
	}
	return ""
}

func stageTable() toml.Table[pipeline.Stage] {
	return toml.Table[pipeline.Stage]{
		Header: "[agent.pipeline.test]",
		Doc: "A stage: `plan`, `implement`, `test`, `security`, `release` or `archive`. `test = \"make test\"` is " +
			"short for a table with only that `command`. Commands run in the worktree, with the environment of the " +
			"agent but without its token.",
		Example: `[[agent]]
name = "fixer"
command = "codex exec --json -"

[agent.pipeline]
plan = { timeout = "5m", tokens = "100k", skip_if = { labels = ["trivial"] } }
test = { command = "make test", timeout = "10m" }
`,
		Keys: []toml.Key[pipeline.Stage]{
			{Name: "command", Type: "string or array of strings", Default: "that of the agent, or none",
				Doc: "what to run, written as the agent's `command` is", Also: []string{"cmd", "exec", "run"},
				Read: setting.CommandKey(func(s *pipeline.Stage) *[]string { return &s.Command })},
			setting.CLI(agentcli.CLIs(), "found out from `command`", "the command line of a language model that a "+
				"script calls; `plain` for none", func(s *pipeline.Stage) *agentcli.CLI { return &s.CLI }),
			{Name: "timeout", Type: "duration", Default: "30m", Doc: "how long a call may take; then it is ended, " +
				"and has failed", Also: []string{"max_time", "time"},
				Read: toml.Duration(func(s *pipeline.Stage) *time.Duration { return &s.Timeout })},
			{Name: "retries", Type: "integer", Default: fmt.Sprint(pipeline.DefaultRetries), Doc: "how often a model " +
				"is called again in an attempt, after a failure that may pass, and after an answer that cannot be used",
				Also: []string{"max_retries", "attempts", "tries"},
				Read: toml.Int(0, 10, func(s *pipeline.Stage) *int { return &s.Retries })},
			{Name: "tokens", Type: setting.TokensType, Doc: "what all of its calls in an attempt may use, such as " +
				"`\"500k\"`; then the attempt ends, and a person is asked", Also: []string{"budget", "max_tokens"},
				Read: setting.ReadTokens(func(s *pipeline.Stage) *int64 { return &s.Tokens })},
			{Name: "skip_if", Type: "table", Doc: "the tasks for which it is skipped, as in " +
				"`[[agent.pipeline.modes]]`; not for implement and release", Also: []string{"skip", "unless"},
				Read: func(r *toml.Reader, v *toml.Value, into *pipeline.Stage) {
					into.SkipIf = &pipeline.Rule{}
					ruleTable().Read(r, v, into.SkipIf)
				}},
			{Name: "apply_edits", Type: "boolean", Default: "`false`", Doc: "only for implement: the command changes " +
				"no files and cannot write to the worktree; its prompt has the files of the step, and the edits in " +
				"its answer are applied as by [coppice patch](patch.md)", Also: []string{"edits", "patch"},
				Read: toml.Bool(func(s *pipeline.Stage) *bool { return &s.ApplyEdits })},
		},
	}
}

const rulesType = "array of tables of rules"

func ruleTable() toml.Table[pipeline.Rule] {
	return toml.Table[pipeline.Rule]{
		Header: "[[agent.pipeline.modes]]",
		Doc: "A rule that chooses the mode of the tasks for which all of its conditions hold; in `skip_if`, `mode` " +
			"is a condition, too.",
		Example: `[[agent]]
name = "fixer"
command = "claude -p --output-format stream-json --verbose --permission-mode acceptEdits"

[agent.pipeline]
test = "make test"

[[agent.pipeline.modes]]
mode = "evolution"
labels = ["feature", "refactoring"]
`,
		Keys: []toml.Key[pipeline.Rule]{
			{Name: "mode", Type: "maintenance, evolution", Doc: "the mode",
				Read: toml.OneOf(pipeline.Modes(), func(p *pipeline.Rule, i int) { p.Mode = pipeline.Modes()[i] })},
			{Name: "labels", Type: "array of strings", Doc: "the task has one of these labels", Also: []string{"label"},
				Read: toml.List("an array of labels", func(p *pipeline.Rule) *[]string { return &p.Labels })},
			{Name: "priorities", Type: "array of integers", Doc: "the task has one of these priorities, 0 to 4",
				Also: []string{"priority"}, Read: readPriorities},
			{Name: "paths", Type: "array of strings", Doc: "the task names files, and all of them match one of these " +
				"patterns", Also: []string{"path", "files"},
				Read: func(r *toml.Reader, v *toml.Value, into *pipeline.Rule) { into.Paths = readPatterns(r, v) }},
		},
	}
}

func readPriorities(r *toml.Reader, v *toml.Value, into *pipeline.Rule) {
	if !r.Want(v, toml.KindArray, "an array of integers") {
		return
	}
	for _, e := range v.Elements {
		if n, ok := r.Integer(e, 0, 4, "a priority from 0 to 4"); ok {
			into.Priorities = append(into.Priorities, int(n))
		}
	}
}

// declarePipeline sets the pipeline of an agent, with its defaults filled in, if it has one.
func (a *agent) declarePipeline(r *toml.Reader) {
	p := a.pipeline
	if p == nil {
		return
	}
	for key, wrong := range map[string]bool{
		"aidefile": a.aidefile != nil, "runtime": a.Runtime == spec.Tmux, "terminal": a.Terminal, "user": a.User != "",
		"stdin": a.Stdin != "",
	} {
		if v := a.table.Field(key); wrong && v != nil {
			r.Fail(v, "remove one of the two", "%s with [agent.pipeline], expected an agent without it", key)
		}
	}
	s := p.Settings
	s.Repository = toml.Absolute(a.Dir, s.Repository)
	for _, n := range pipeline.Names() {
		form := p.stages[n]
		stage := form.Stage
		switch n {
		case pipeline.Plan, pipeline.Implement, pipeline.Security:
			if len(stage.Command) == 0 && !form.off {
				stage.Command, stage.CLI = a.Command, cmp.Or(stage.CLI, a.CLI)
			}
		}
		given := p.table.Field(n.String())
		if p.PullRequest != nil && given != nil && (n == pipeline.Release || n == pipeline.Archive) {
			r.Fail(given, "remove one of the two",
				"%s with pull_request, expected a pipeline without it: people merge the change", n)
		}
		if stage.SkipIf != nil && (n == pipeline.Implement || n == pipeline.Release) {
			r.Fail(given, "remove it", "skip_if of %s, which is never skipped", n)
		}
		if stage.ApplyEdits && n != pipeline.Implement {
			r.Fail(given, "remove it", "apply_edits of %s, expected it for implement only", n)
		}
		s.Stages = append(s.Stages, stage)
	}
	// These limit the stages, and not the worker, which makes worktrees and merges.
	s.Writable, s.ReadOnly = a.ReadWritePaths, a.ReadOnlyPaths
	a.ReadWritePaths, a.ReadOnlyPaths = nil, nil
	a.Pipeline = &s
	a.Notify = true // a worker reports its stage
	if a.Limit == (supervisor.Limit{}) {
		a.Limit = spec.DefaultPatrol().Limit
	}
	if a.DefaultBackoff { // between two tasks, too
		a.Backoff.Base = 100 * time.Millisecond
	}
	a.Limit.Count = supervisor.CountFailures // a worker ends after each attempt
}

// newPipeline returns a form with the defaults.
func newPipeline(table *toml.Value) *pipelineForm {
	p := &pipelineForm{table: table}
	p.Mode, p.FixAttempts = pipeline.Modes()[0], pipeline.DefaultFixAttempts
	for i := range p.stages {
		p.stages[i].Timeout, p.stages[i].Retries = pipeline.DefaultTimeout, pipeline.DefaultRetries
	}
	return p
}
