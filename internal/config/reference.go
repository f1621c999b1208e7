package config

import (
	_ "embed" // referenceHead
	"io"
	"slices"

	"github.com/coppice-dev/coppice/internal/config/notify"
	"github.com/coppice-dev/coppice/internal/config/orders"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/config/traces"
)

// sections returns all tables, in the order of the reference page.
func sections() []toml.Section {
	return slices.Concat([]toml.Section{
		fileTable().Section(), projectTable().Section(), supervisionTable().Section(), daemonTable().Section(),
		aideTable().Section(), persistenceTable().Section(), allLogsTable().Section(), supervisorTable().Section(),
		agentTable().Section(), limitsTable().Section(), agentLogsTable().Section(), backoffTable().Section(),
		shutdownTable().Section(), readyTable().Section(), nudgeTable().Section(), beliefTable().Section(),
		hookTable("on_waking").Section(), poolTable().Section(), pipelineTable().Section(),
		stageTable().Section(), pullRequestTable().Section(), ruleTable().Section(),
	}, orders.Sections(), []toml.Section{
		quotaTable().Section(), budgetTable().Section(), serviceTable().Section(), notify.Table().Section(),
		notify.DeadmanTable().Section(), otlpTable().Section(), metricsTable().Section(), traces.Table().Section(),
		webTable().Section(), patchesSection(),
	})
}

//go:embed head.md
var referenceHead string

// WriteReference writes the reference page of coppice.toml, in Markdown.
func WriteReference(w io.Writer) error {
	return toml.WritePage(w, referenceHead, sections())
}

// patchesSection returns [[patches.agent]] for the reference page.
func patchesSection() toml.Section {
	return toml.Section{
		Header: "[[patches.agent]]",
		Doc: "Changes an agent that is declared elsewhere, in this file or in one that it includes; " +
			"`[[patches.supervisor]]` does the same to a supervisor. Its other keys are those of `[[agent]]`, " +
			"and only the keys that are set change anything. Tables such as `env` are changed key by key; a list " +
			"is replaced, also by `[]`. Patches are applied after everything else, in the order of the files. " +
			"See [Files](files.md).",
		Example: `[[agent]]
name = "worker"
command = ["./work.sh"]
env = { LOG_LEVEL = "info", MODEL = "small" }

[[patches.agent]]
name = "worker"
env = { LOG_LEVEL = "debug" }
env_remove = ["MODEL"]
command_append = ["--verbose"]
`,
		Rows: []toml.Row{
			{Name: "name", Type: "string", Default: toml.Required,
				Doc: "the agent to change; it is an error if there is none with that name"},
			{Name: "*_append", Type: "array", Doc: "elements to add to the end of a list, as in `command_append`"},
			{Name: "*_remove", Type: "array of strings", Doc: "keys to remove from a table, as in `env_remove`"},
		},
	}
}

// WriteSchema writes the JSON Schema of coppice.toml.
func WriteSchema(w io.Writer) error {
	b := toml.SchemaBuilder{Sections: sections(), Special: ownSchema, Spellings: setting.OtherSpellings}
	return b.Write(w, FileName)
}

// ownSchema returns the schema of a value that only coppice.toml has.
func ownSchema(b *toml.SchemaBuilder, path string, r toml.Row, patch bool) toml.Schema {
	switch {
	case r.Type == setting.MaxType:
		return setting.LimitSchema(0)
	case r.Type == setting.TokensType:
		return setting.TokensSchema()
	case r.Type == maxInstancesType:
		return setting.LimitSchema(-1) // which means unlimited
	case r.Type == hookType: // one table documents all hooks
		command := toml.TextOrWords()
		command["anyOf"] = append(command["anyOf"].([]toml.Schema), b.Table("agent.on_waking", r.Doc, patch))
		return command
	case r.Type == stageType || r.Type == offType: // one table documents all stages
		stage := toml.TextOrWords()
		all := append(stage["anyOf"].([]toml.Schema), b.Table("agent.pipeline.test", r.Doc, patch))
		if r.Type == offType {
			all = append(all, toml.Schema{"const": false})
		}
		stage["anyOf"] = all
		return stage
	case r.Type == rulesType:
		return toml.Schema{"type": "array", "items": b.Table("agent.pipeline.modes", "", patch)}
	case path == "agent.pipeline.test" && r.Name == "skip_if":
		return b.Table("agent.pipeline.modes", r.Doc, patch)
	case r.Type == "array of integers":
		return toml.Schema{"type": "array", "items": toml.Schema{"type": "integer", "minimum": 0, "maximum": 4}}
	case path == "orders" && r.Name == "overrides":
		t := b.Table("order", "", true)
		t["required"] = []string{"name"}
		return toml.Schema{"type": "array", "items": t}
	case path == "agent" && r.Name == "beliefs": // A table is a declaration; any other value is the initial value.
		return toml.Schema{"type": "object", "additionalProperties": toml.Schema{
			"anyOf": []toml.Schema{{"type": []string{"string", "number", "boolean", "array"}},
				b.Table("agent.beliefs", "", patch)},
		}}
	case path == "" && r.Name == "patches":
		return toml.Schema{"type": "object", "additionalProperties": false, "properties": toml.Schema{
			"agent":      toml.Schema{"type": "array", "items": b.Patch("agent")},
			"supervisor": toml.Schema{"type": "array", "items": b.Patch("supervisor")},
		}}
	}
	return nil
}
