package quota

import (
	"context"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
)

// The model answers the agent that goes first, which may go on for hours: its account is open. What an earlier
// incarnation of it was told, and an answer to another agent, mean nothing.
func TestAnswered(t *testing.T) {
	const (
		start  = `{"type":"system","subtype":"init","session_id":"s"}`
		answer = `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"yes"}]}}`
		retry  = `{"type":"system","subtype":"api_retry","attempt":1,"error_status":429,"error":"rate_limit"}`
		failed = `{"type":"assistant","error":"rate_limit","message":{"content":[{"type":"text","text":"no"}]}}`
	)
	h := newHarness(t, memory.New())
	h.fleet.f.Quotas = h.fleet.f.Quotas[:1]
	h.fleet.f.Quotas[0].Next = ""
	h.starts("t/a", "main")
	follow := func(path string, lines ...string) {
		t.Helper()
		h.Follow(t.Context(), agentcli.Claude, func(_ context.Context, _ token.Caller, line func(string)) error {
			for _, l := range lines {
				line(l)
			}
			return nil
		}, token.Caller{Path: path})
	}
	closed := func() bool { return len(h.Pools()) > 0 }

	earlier := make(chan func(string))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Follow(t.Context(), agentcli.Claude, func(_ context.Context, _ token.Caller, line func(string)) error {
			line(start)
			wait := make(chan struct{})
			earlier <- func(l string) { line(l); close(wait) }
			<-wait
			return nil
		}, token.Caller{Path: "t/a"})
	}()
	late := <-earlier
	h.limit("t/a", "")
	if err := h.Resume("main"); err != nil {
		t.Fatal(err)
	}
	h.starts("t/a", "main")
	late(answer)
	<-done
	follow("t/b", start, answer)
	follow("t/a", start, retry, failed)
	if !closed() {
		t.Fatal("the account is open, and has served nobody")
	}
	if follow("t/a", start, answer); closed() {
		t.Errorf("the account has served t/a, and is closed: %+v", h.Pools())
	}
}
