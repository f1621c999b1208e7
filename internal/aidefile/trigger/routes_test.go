package trigger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/supervisor"
)

func (fleet) FullPath(path string) string { return "t/" + path }

func (f fleet) Locate(path string) (*supervisor.Supervisor, string, error) {
	if path != "t/a" && path != "t/plain" {
		return nil, "", fmt.Errorf("%s: %w", path, api.ErrNotFound)
	}
	return nil, "", nil
}

// Requests that start no run are refused before anything is recorded.
func TestFireRefuses(t *testing.T) {
	file := &aidefile.Agent{Path: "/Aidefile", File: aidefile.Default(), Settings: aidefile.Settings{
		Command: []string{"model", "{task}"},
	}}
	m := New(Options{Agents: fleet{file: file}})
	m.Add("t/a", file, nil, Previous{})
	c := apitest.Serve(t, m.Register).People()
	for _, tt := range []struct {
		what string
		req  FireRequest
		err  error
		says string
	}{
		{"no path", FireRequest{}, api.ErrInvalid, "path is missing"},
		{"an impossible path", FireRequest{Path: "a\x00"}, api.ErrInvalid, "control character"},
		{"a long task", FireRequest{Path: "a", Task: strings.Repeat("x", MaxTask+1)}, api.ErrInvalid, "expected at most"},
		{"a task that is an option", FireRequest{Path: "a", Task: "-rf"}, api.ErrInvalid, "be an option"},
		{"no such agent", FireRequest{Path: "b"}, api.ErrNotFound, "t/b"},
		{"an agent without an Aidefile", FireRequest{Path: "plain"}, api.ErrInvalid, "t/plain has no Aidefile"},
	} {
		if _, err := Fire.Call(t.Context(), c, tt.req); !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}
