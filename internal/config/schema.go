package config

import (
	"io"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
)

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
	case r.Type == maxInstancesType:
		return setting.LimitSchema(-1) // which means unlimited
	case r.Type == hookType: // [agent.on_waking] documents all hooks
		command := toml.TextOrWords()
		command["anyOf"] = append(command["anyOf"].([]toml.Schema), b.Table("agent.on_waking", r.Doc, patch))
		return command
	case path == "orders" && r.Name == "overrides":
		t := b.Table("order", "", true)
		t["required"] = []string{"name"}
		return toml.Schema{"type": "array", "items": t}
	case path == "agent" && r.Name == "beliefs": // A table is a declaration, anything else the initial value.
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
