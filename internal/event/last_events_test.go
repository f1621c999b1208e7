package event

import (
	"log/slog"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store/memory"
)

// What was appended before Close is written, however the writer and the caller take turns.
func TestLastEvents(t *testing.T) {
	for range 2000 {
		s := memory.New()
		l, err := Open(Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		l.Append(Event{Time: time.Now(), Type: ControllerStarted, Message: "first"})
		if err := l.Sync(t.Context()); err != nil { // the writer goes on from here at the same time
			t.Fatal(err)
		}
		l.Append(Event{Time: time.Now(), Type: ControllerStopped, Message: "last"})
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if records, _, err := s.Snapshot(t.Context(), "events"); err != nil || len(records) != 2 {
			t.Fatalf("%d of 2 events, %v", len(records), err)
		}
		s.Close()
	}
}
