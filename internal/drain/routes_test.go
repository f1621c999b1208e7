package drain

import (
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// The routes validate requests, and an agent can see and end only its own drain.
func TestRoutes(t *testing.T) {
	r := newHarness(t, memory.New())
	d := apitest.Serve(t, r.Register)
	ctx, people, agent := t.Context(), d.People(), d.Agent("t/a")
	for _, req := range []Request{{}, {Path: "t\n"}, {Path: "t/a", Timeout: -1}, {Path: "t/a", Timeout: 604801}} {
		if _, err := Begin.Call(ctx, people, req); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if check, err := Check.Call(ctx, agent, api.None{}); err != nil || check.Drain != nil {
		t.Errorf("before: %+v, %v", check, err)
	}
	if _, err := Acknowledge.Call(ctx, agent, api.None{}); !errors.Is(err, api.ErrConflict) {
		t.Errorf("acknowledged without a drain: %v", err)
	}
	r.begin(record{Path: "t/a", Incarnation: 1, Reason: "lunch"}, DefaultTimeout, "user")
	if check, err := Check.Call(ctx, agent, api.None{}); err != nil || check.Drain == nil ||
		check.Drain.Reason != "lunch" || check.Drain.Finished {
		t.Errorf("drained: %+v, %v", check, err)
	}
	if check, err := Check.Call(ctx, d.Agent("t/b"), api.None{}); err != nil || check.Drain != nil {
		t.Errorf("another agent: %+v, %v", check, err)
	}
	if _, err := Acknowledge.Call(ctx, agent, api.None{}); err != nil {
		t.Fatal(err)
	}
}
