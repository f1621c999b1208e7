package config

import (
	"io"

	"github.com/coppice-dev/coppice/internal/aidefile"
)

// WriteAidefileSchema writes the JSON Schema of an Aidefile.
func WriteAidefileSchema(w io.Writer) error {
	b := schemaBuilder{sections: aidefileSections(), special: aidefileSchema, spellings: otherSpellings}
	return b.write(w, aidefile.FileName)
}

// aidefileSchema is the schema of a value that only Aidefiles have.
func aidefileSchema(_ *schemaBuilder, _ string, r row, _ bool) schema {
	switch r.typ {
	case secondsType:
		return schema{"anyOf": []schema{{"type": "string", "pattern": durationPattern},
			{"type": "string", "pattern": "^[0-9]+$"}}}
	case tokensType:
		return schema{"anyOf": []schema{{"type": "integer", "minimum": 0},
			{"type": "string", "pattern": `^\s*[0-9]+([.][0-9]+)?[kKmM]?\s*$`}}}
	}
	return nil
}
