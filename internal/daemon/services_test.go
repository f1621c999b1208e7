package daemon

import (
	"encoding/json"
	"testing"
)

// All features together have one description, in which each operation has a name of its own.
func TestDescription(t *testing.T) {
	c := &Controller{}
	var d struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(c.server().Description(), &d); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for path, methods := range d.Paths {
		for method, o := range methods {
			if other := names[o.OperationID]; other != "" || o.OperationID == "" {
				t.Errorf("%s %s is called %q, as %s is", method, path, o.OperationID, other)
			}
			names[o.OperationID] = path
		}
	}
	for name, path := range map[string]string{
		"listOwnMail": "/v1/agent/mail", "answer": "/v1/answer", "claimOutcome": "/v1/agent/outcome", "nodes": "/v1/nodes",
	} {
		if names[name] != path {
			t.Errorf("%s is %q, want %s", name, names[name], path)
		}
	}
}
