package quota

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// The model answers the agent that goes first, which may go on for hours: its account is open. What an earlier
// incarnation of it was told, and an answer to another agent, mean nothing.
func TestAnswered(t *testing.T) {
	h := newHarness(t, memory.New())
	h.fleet.f.Quotas = h.fleet.f.Quotas[:1]
	h.fleet.f.Quotas[0].Next = ""
	h.starts("t/a", "main")
	earlier := time.Now()
	h.limit("t/a", "")
	if err := h.Resume("main"); err != nil {
		t.Fatal(err)
	}
	h.starts("t/a", "main")
	h.Answered("t/a", earlier)
	h.Answered("t/b", time.Now())
	if len(h.Pools()) == 0 {
		t.Fatal("the account is open, and has served nobody")
	}
	if h.Answered("t/a", time.Now()); len(h.Pools()) > 0 {
		t.Errorf("the account has served t/a, and is closed: %+v", h.Pools())
	}
}

// An account that does not serve an agent that goes on is closed, once.
func TestRefused(t *testing.T) {
	h := newHarness(t, memory.New())
	h.starts("t/a", "main")
	r := agentcli.Record{Verdict: agentcli.Verdict{
		Kind: outcome.Deferred, Obstacle: outcome.UsageLimit, Reason: "used up", Reset: time.Now().Add(time.Hour),
	}}
	for range 2 {
		h.Refused("t/a", r)
		if all := h.Pools(); len(all) != 1 || all[0].State != Parked || all[0].Agent != "t/a" {
			t.Errorf("%+v", all)
		}
	}
}
