package aidefile

import (
	"io"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
)

// WriteSchema writes the JSON Schema of an Aidefile.
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
	case tokensType:
		return toml.Schema{"anyOf": []toml.Schema{{"type": "integer", "minimum": 0},
			{"type": "string", "pattern": `^\s*[0-9]+([.][0-9]+)?[kKmM]?\s*$`}}}
	}
	return nil
}
