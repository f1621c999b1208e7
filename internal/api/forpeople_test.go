package api

import (
	"context"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/token"
)

// TestRefusalSaysWhatToDo checks that a refusal names what only people can do, for
// every such route, and what an agent can do instead.
func TestRefusalSaysWhatToDo(t *testing.T) {
	server := NewServer(nil, nil)
	add := Route[None, None]{Method: "POST", Path: "/tasks", For: People | Agents, ID: "add"}
	add.Handle(server, func(context.Context, token.Caller, None) (none None, _ error) { return none, nil })
	c := &call{Server: server}
	for _, rt := range c.routes {
		if _, known := peopleOnly[rt.path]; rt.forPeople() && !known {
			t.Errorf("peopleDo does not say what %s does", rt.path)
		}
	}
	for path, want := range map[string]string{
		"/v1/answer":  "only people can answer questions; an agent can ask a person with: coppice agent ask",
		"/v1/act":     "coppice agent request-restart; for everything else",
		"/v1/beliefs": "coppice agent belief",
		"/v1/tasks":   "coppice agent task --help",
		"/v1/down":    "only people can stop the daemon; an agent can ask",
		"/v1/unknown": "only people can use /v1/unknown; an agent can ask",
	} {
		rt := &route{method: "POST", path: path}
		if got := onlyPeople(rt) + "; " + c.alternative(rt); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}
