package access

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
)

// TestDenied: an agent that asks again and again does not fill the log, and each event says how often it has.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close(context.Background())
		a, who := New(Options{Log: log}), token.Caller{Path: "t/a", Incarnation: 2}
		for range 5 {
			a.Denied(who, 7, "POST /v1/act")
		}
		a.Denied(who, 7, "POST /v1/down") // another request is another denial
		time.Sleep(denialInterval + time.Second)
		a.Denied(who, 7, "POST /v1/act")
		if err := log.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		events, _, err := log.Read(t.Context(), 0, event.Filter{Types: []string{string(event.AccessDenied)}}, 0)
		if err != nil || len(events) != 3 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		for i, want := range []int{1, 1, 5} {
			var data struct{ Times int }
			if err := json.Unmarshal(events[i].Data, &data); err != nil || data.Times != want {
				t.Errorf("event %d is about %d refusals, want %d (%v)", i, data.Times, want, err)
			}
			if events[i].Path != "t/a" || events[i].Incarnation != 2 {
				t.Errorf("event %d: %+v", i, events[i])
			}
		}
	})
}
