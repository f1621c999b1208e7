// Package aidefile reads Aidefiles into the types of internal/aidefile.
package aidefile

import (
	"cmp"
	_ "embed" // head
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/supervisor"
)

// Load reads the Aidefile at path. In addition to what Parse checks, it checks that hooks
// exist. An error about the file is toml.Errors. If the file does not exist, it wraps
// fs.ErrNotExist.
func Load(path string) (*aidefile.File, error) {
	data, dir, err := toml.Read(path, Advice)
	if err != nil {
		return nil, err
	}
	return Read(path, dir, data, true)
}

// Parse reads data, the content of the Aidefile called name, without touching the file
// system. The error is toml.Errors.
func Parse(name string, data []byte) (*aidefile.File, error) {
	return Read(name, filepath.Dir(name), data, false)
}

// Advice has the hints for an Aidefile.
var Advice = toml.Advice{Missing: "write one, it may be empty", Large: "put texts into files next to it",
	Page: "docs/aidefile-reference.md"}

// form is an Aidefile while it is read.
type form struct {
	aidefile.File
	dir    string
	onDisk bool // whether to check that the files it names exist
}

// Read reads data, the content of the Aidefile called name in the directory dir. If onDisk is
// true, it checks that hooks exist. The error is toml.Errors.
func Read(name, dir string, data []byte, onDisk bool) (*aidefile.File, error) {
	r, document, err := toml.Open(name, data, Advice, Sections())
	if err != nil {
		return nil, err
	}
	f := form{File: aidefile.Default(), dir: dir, onDisk: onDisk}
	fileTable().Read(r, document, &f)
	if r.Count() > 0 {
		return nil, r.Errors()
	}
	f.Persona.Name = cmp.Or(f.Persona.Name, setting.ProjectName(dir))
	f.Label = cmp.Or(f.Label, f.Persona.Name)
	return &f.File, nil
}

func fileTable() toml.Table[form] {
	itself := func(f *form) *form { return f }
	return toml.Table[form]{
		Doc: "The whole file. All of it is optional: an empty file is an agent that runs once when a person " +
			"starts it.",
		Keys: []toml.Key[form]{
			setting.CLI(agentcli.Callable(), "that of the project",
				"the command line that its runs call, in the way in which it is usually called: `codex` stands for "+
					"`codex exec --json -`. With `acp`, a run talks to the command over the [Agent Client "+
					"Protocol](acp.md). If `command` in the table `[aide]` of the project is of the same command "+
					"line, that is called. It comes before all tables",
				func(f *form) *agentcli.CLI { return &f.CLI }),
			{Name: "persona", Type: "table", Doc: "who the agent is", Also: []string{"agent", "identity"},
				Read: toml.Sub(personaTable(), func(f *form) *aidefile.Persona { return &f.Persona })},
			{Name: "budget", Type: "table", Doc: "what one run may use", Also: []string{"limits"},
				Read: toml.Sub(budgetTable(), func(f *form) *aidefile.Budget { return &f.Budget })},
			{Name: "memory", Type: "table", Doc: "what it keeps from run to run",
				Read: toml.Sub(memoryTable(), func(f *form) *aidefile.Memory { return &f.Memory })},
			{Name: "hooks", Type: "table", Doc: "what runs before and after a run", Also: []string{"hook"},
				Read: toml.Sub(hooksTable(), itself)},
			{Name: "skills", Type: "table", Doc: "what it knows how to do", Also: []string{"skill", "tools"},
				Read: toml.Sub(skillsTable(), itself)},
			{Name: "trigger", Type: "table", Doc: "what starts a run", Also: []string{"triggers", "on"},
				Read: toml.Sub(triggerTable(), itself)},
			{Name: "vault", Type: "table", Doc: "its secrets", Also: []string{"secrets", "env"},
				Read: toml.Sub(vaultTable(), itself)},
			{Name: "output", Type: "table", Doc: "what is kept of its output", Also: []string{"summary"},
				Read: toml.Sub(outputTable(), func(f *form) *aidefile.Output { return &f.Output })},
			{Name: "workspace", Type: "table", Doc: "where it may read", Read: toml.Sub(workspaceTable(), itself)},
			{Name: "acp", Type: "table", Doc: "what an agent may do that speaks the Agent Client Protocol",
				Also: []string{"permissions", "permission"}, Read: toml.Sub(acpTable(), itself)},
			{Name: "daemon", Type: "table",
				Doc:  "when a run is followed by another one without a trigger; without this table, never",
				Also: []string{"supervision", "supervisor", "restart"},
				Read: func(r *toml.Reader, v *toml.Value, f *form) {
					f.Policy = aidefile.Kept()
					policyTable().Read(r, v, &f.Policy)
				}},
		},
	}
}

func personaTable() toml.Table[aidefile.Persona] {
	return toml.Table[aidefile.Persona]{
		Header:  "[persona]",
		Doc:     "Who the agent is.",
		Example: "[persona]\nname = \"uptime-monitor\"\nstyle = \"brief, and sure of its facts\"\n",
		Keys: []toml.Key[aidefile.Persona]{
			{Name: "name", Type: "string", Default: "the name of the directory",
				Doc: "its name, in the tree and to itself; a segment of paths", Also: []string{"id"},
				Read: setting.Name(func(p *aidefile.Persona) *string { return &p.Name })},
			{Name: "style", Type: "string", Doc: "how it works and speaks, in words of your own",
				Also: []string{"tone", "description", "role"},
				Read: toml.Text(func(p *aidefile.Persona) *string { return &p.Style })},
		},
	}
}

func budgetTable() toml.Table[aidefile.Budget] {
	return toml.Table[aidefile.Budget]{
		Header: "[budget]",
		Doc: "What one run may use, and what a chain of runs may use. A run that exceeds its budget has failed; " +
			"the next run has a budget of its own.",
		Example: "[budget]\ntokens = \"200k\"\nchain_tokens = \"1m\"\ntimeout = \"10m\"\nmax_retries = 1\n",
		Keys: []toml.Key[aidefile.Budget]{
			{Name: "tokens", Type: setting.TokensType, Default: `"200k"`, Doc: "tokens of input and output together, " +
				"with `k` for thousands and `m` for millions. The command reports what it has used; once the " +
				"tokens are used up it is not called again", Also: []string{"token", "max_tokens"},
				Read: setting.ReadTokens(func(b *aidefile.Budget) *int64 { return &b.Tokens })},
			{Name: "chain_tokens", Type: setting.TokensType, Doc: "tokens of all runs of a chain together: the run " +
				"that a trigger started, and the runs that follow it until one succeeds. Once they are used up the " +
				"agent gives up. Without this key each of `max_restarts` + 1 runs may use `tokens`",
				Also: []string{"total_tokens", "max_total_tokens", "chain"},
				Read: func(r *toml.Reader, v *toml.Value, into *aidefile.Budget) {
					setting.ReadTokens(func(b *aidefile.Budget) *int64 { return &b.Chain })(r, v, into)
					if into.Chain == 0 && !r.IsFaulty(v) {
						r.Fail(v, "without it there is no bound", "%s is 0, expected at least 1", r.Label(v))
					}
				}},
			{Name: "timeout", Type: secondsType, Default: `"6h"`, Doc: "how long the run may take, with all its tries; then the " +
				"command is stopped, with all processes that it has started. Seconds may be written without a " +
				"unit (`\"120\"`)",
				Also: []string{"max_duration", "time"},
				Read: func(r *toml.Reader, v *toml.Value, into *aidefile.Budget) {
					if v.Kind == toml.KindString && v.Text != "" && strings.Trim(v.Text, "0123456789") == "" {
						v = new(*v)
						v.Text += "s"
					}
					toml.Duration(func(b *aidefile.Budget) *time.Duration { return &b.Timeout })(r, v, into)
				}},
			{Name: "silence", Type: "duration", Default: `"15m"`, Doc: "how long the model may write nothing while no " +
				"tool works; then the call is ended, and made again. It applies to `claude`, `codex`, `gemini` and " +
				"`copilot` with an output that streams", Also: []string{"silence_timeout"},
				Read: toml.Duration(func(b *aidefile.Budget) *time.Duration { return &b.Silence })},
			{Name: "max_retries", Type: "integer", Default: "3",
				Doc:  "how often the command is called again in the same run after it has failed; 0 for never",
				Also: []string{"retries", "max_attempts"},
				Read: toml.Int(0, aidefile.MaxRestarts, func(b *aidefile.Budget) *int { return &b.MaxRetries })},
		},
	}
}

// secondsType is a type of values that only Aidefiles have.
const secondsType = "duration or seconds"

func memoryTable() toml.Table[aidefile.Memory] {
	return toml.Table[aidefile.Memory]{
		Header:  "[memory]",
		Doc:     "What the agent keeps from run to run: the files in the directory `memory` next to the Aidefile.",
		Example: "[memory]\ncompact_after = \"50k\"\n",
		Keys: []toml.Key[aidefile.Memory]{
			{Name: "compact_after", Type: setting.TokensType, Default: `"200k"`,
				Doc:  "how many tokens (of 4 bytes) these files may have before the agent is asked to shorten them",
				Also: []string{"compact", "max_tokens", "limit"},
				Read: setting.ReadTokens(func(m *aidefile.Memory) *int64 { return &m.CompactAfter })},
		},
	}
}

func policyTable() toml.Table[aidefile.Policy] {
	return toml.Table[aidefile.Policy]{
		Header:  "[daemon]",
		Doc:     "When a run is followed by another one without a trigger. Without this table it never is.",
		Example: "[daemon]\nrestart = \"always\"\nmax_restarts = 100\nbackoff = \"exponential\"\n",
		Keys: []toml.Key[aidefile.Policy]{
			{Name: "restart", Type: "always, on-failure, never", Default: "on-failure",
				Doc:  "after every run; after one that has failed; not at all",
				Also: []string{"policy", "mode"},
				Read: setting.Restart(func(p *aidefile.Policy) *supervisor.Restart { return &p.Restart })},
			{Name: "max_restarts", Type: "integer", Default: "10", Doc: "how many restarts may follow each other " +
				"before the agent gives up; a success resets the count. A restart after a success does not count",
				Also: []string{"max_restart", "restarts", "max_retries"},
				Read: toml.Int(0, aidefile.MaxRestarts, func(p *aidefile.Policy) *int { return &p.MaxRestarts })},
			{Name: "backoff", Type: "exponential, linear, fixed", Default: "exponential",
				Doc:  "the delay before a restart, in seconds: 1, 2, 4, 8 and so on; 1, 2, 3; always 1. At most 300",
				Also: []string{"delay", "strategy"},
				Read: toml.OneOf([]string{"exponential", "linear", "fixed"}, func(p *aidefile.Policy, i int) {
					p.Backoff = []supervisor.BackoffKind{supervisor.Exponential, supervisor.Linear, supervisor.Fixed}[i]
				})},
		},
	}
}

// Sections returns all tables of an Aidefile, in the order of its reference page.
func Sections() []toml.Section {
	return []toml.Section{
		fileTable().Section(), personaTable().Section(), triggerTable().Section(), policyTable().Section(),
		budgetTable().Section(), memoryTable().Section(), hooksTable().Section(), skillsTable().Section(),
		vaultTable().Section(), outputTable().Section(), workspaceTable().Section(), acpTable().Section(),
	}
}

// WriteReference writes the reference page of Aidefiles, in Markdown.
func WriteReference(w io.Writer) error { return toml.WritePage(w, head, Sections()) }

//go:embed head.md
var head string

// WriteSchema writes the JSON Schema of Aidefiles.
func WriteSchema(w io.Writer) error {
	b := toml.SchemaBuilder{Sections: Sections(), Special: ownSchema, Spellings: setting.OtherSpellings}
	return b.Write(w, aidefile.FileName)
}

// ownSchema returns the schema of a value that only Aidefiles have.
func ownSchema(_ *toml.SchemaBuilder, _ string, r toml.Row, _ bool) toml.Schema {
	switch r.Type {
	case secondsType:
		return toml.Schema{"anyOf": []toml.Schema{{"type": "string", "pattern": toml.DurationPattern},
			{"type": "string", "pattern": "^[0-9]+$"}}}
	case kindsType:
		return toml.Schema{"type": "array", "items": toml.Schema{"type": "string", "enum": aidefile.ToolKinds()}}
	case setting.TokensType:
		return setting.TokensSchema()
	}
	return nil
}
