package api

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
)

//go:embed openapi/*.json
var described embed.FS

// Description is the OpenAPI 3.1 description of the protocol, which the
// server hands out at /v1/openapi.json. It is made of openapi/base.json and a
// file for each topic, which adds its paths and schemas.
var Description = sync.OnceValue(func() []byte {
	d, err := describe(described)
	if err != nil {
		panic(err) // the files are part of the program, and a test reads them
	}
	return d
})

func describe(files embed.FS) ([]byte, error) {
	type document struct {
		OpenAPI    string                     `json:"openapi,omitempty"`
		Info       json.RawMessage            `json:"info,omitempty"`
		Servers    json.RawMessage            `json:"servers,omitempty"`
		Paths      map[string]json.RawMessage `json:"paths"`
		Components map[string]json.RawMessage `json:"components"`
	}
	read := func(name string) (doc document, schemas map[string]json.RawMessage, err error) {
		data, err := files.ReadFile("openapi/" + name)
		if err == nil {
			err = json.Unmarshal(data, &doc)
		}
		if err == nil && doc.Components["schemas"] != nil {
			err = json.Unmarshal(doc.Components["schemas"], &schemas)
		}
		if err != nil {
			err = fmt.Errorf("openapi/%s: %w", name, err)
		}
		return doc, schemas, err
	}
	whole, schemas, err := read("base.json")
	if err != nil {
		return nil, err
	}
	all, err := files.ReadDir("openapi")
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		if f.Name() == "base.json" {
			continue
		}
		topic, more, err := read(f.Name())
		if err != nil {
			return nil, err
		}
		maps.Copy(whole.Paths, topic.Paths)
		maps.Copy(schemas, more)
	}
	if whole.Components["schemas"], err = json.Marshal(schemas); err != nil {
		return nil, err
	}
	return json.MarshalIndent(whole, "", "  ")
}
