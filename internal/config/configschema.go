package config

import "io"

// WriteSchema writes the JSON Schema of coppice.toml.
func WriteSchema(w io.Writer) error {
	b := schemaBuilder{sections: sections(), special: ownSchema, spellings: otherSpellings}
	return b.write(w, FileName)
}

// ownSchema is the schema of a value that only coppice.toml has.
func ownSchema(b *schemaBuilder, path string, r row, patch bool) schema {
	switch {
	case r.typ == maxType:
		return limitSchema(0)
	case r.typ == maxInstancesType:
		return limitSchema(-1) // which means unlimited
	case r.typ == hookType: // [agent.on_waking] documents all hooks
		command := textOrWords()
		command["anyOf"] = append(command["anyOf"].([]schema), b.table("agent.on_waking", r.doc, patch))
		return command
	case path == "orders" && r.name == "overrides":
		t := b.table("order", "", true)
		t["required"] = []string{"name"}
		return schema{"type": "array", "items": t}
	case path == "agent" && r.name == "beliefs": // A table is a declaration, anything else the initial value.
		return schema{"type": "object", "additionalProperties": schema{
			"anyOf": []schema{{"type": []string{"string", "number", "boolean", "array"}},
				b.table("agent.beliefs", "", patch)},
		}}
	case path == "" && r.name == "patches":
		return schema{"type": "object", "additionalProperties": false, "properties": schema{
			"agent":      schema{"type": "array", "items": b.patch("agent")},
			"supervisor": schema{"type": "array", "items": b.patch("supervisor")},
		}}
	}
	return nil
}
