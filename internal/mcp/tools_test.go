package mcp

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// The schemas are valid, and all that a model has to carry is small.
func TestToolSchemas(t *testing.T) {
	w := serve(t, nil)
	w.begin()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if !w.out.Scan() {
		t.Fatal(w.out.Err())
	}
	if n, most := len(w.out.Bytes()), 8<<10; n > most {
		t.Errorf("tools/list has %d bytes, at most %d are wanted", n, most)
	}
	var answer struct {
		Result struct {
			Tools []struct {
				Name, Description string
				InputSchema       json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(w.out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Result.Tools) != len(AgentTools(nil)) {
		t.Errorf("%d tools, want %d", len(answer.Result.Tools), len(AgentTools(nil)))
	}
	for _, tool := range answer.Result.Tools {
		if tool.Description == "" || len(tool.Description) > 400 {
			t.Errorf("%s: a description of %d bytes", tool.Name, len(tool.Description))
		}
		schema := new(jsonschema.Schema)
		if err := json.Unmarshal(tool.InputSchema, schema); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		if _, err := schema.Resolve(nil); err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}
