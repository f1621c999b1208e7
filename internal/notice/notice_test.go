package notice

import (
	"context"
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/token"
)

// An agent gets the notices of all sources in their order, and each source gets the key.
func TestHook(t *testing.T) {
	failed := errors.New("the disk is full")
	var fails bool
	from := func(kind string) Source {
		return func(_ context.Context, who token.Caller, key string) ([]Notice, error) {
			switch {
			case fails && kind == "task":
				return nil, failed
			case who != token.Caller{Path: "t/a", Incarnation: 1}:
				return nil, nil
			}
			return []Notice{{Kind: kind, Text: key}}, nil
		}
	}
	d := apitest.Serve(t, func(s *api.Server) { Register(s, from("drain"), from("task")) })
	got, err := Hook.Call(t.Context(), d.Agent("t/a"), HookRequest{Key: "k"})
	if err != nil || len(got) != 2 || got[0] != (Notice{Kind: "drain", Text: "k"}) || got[1].Kind != "task" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Hook.Call(t.Context(), d.Agent("t/b"), HookRequest{}); err != nil || got == nil || len(got) != 0 {
		t.Errorf("another agent: %#v, %v", got, err)
	}
	fails = true
	if got, err := Hook.Call(t.Context(), d.Agent("t/a"), HookRequest{}); err == nil || got != nil {
		t.Errorf("a source has failed: %+v, %v", got, err)
	}
}
