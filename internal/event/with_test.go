package event

import (
	"fmt"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// What comes with events is written with them, in their order, the last word winning.
func TestAppendWith(t *testing.T) {
	s := memory.New()
	l, err := Open(Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	for i := range n {
		l.Append(Event{Type: AgentStarted, Message: fmt.Sprint(i)},
			store.Op{Kind: store.Put, Key: "nodes/a", Value: []byte(fmt.Sprint(i))},
			store.Op{Kind: store.Put, Key: fmt.Sprintf("nodes/n%d", i%7), Value: []byte("x")})
	}
	if err := l.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, _, err := l.Read(t.Context(), 0, Filter{}, 0)
	if err != nil || len(events) != n {
		t.Fatalf("%d events, %v", len(events), err)
	}
	records, _, err := s.Snapshot(t.Context(), "nodes")
	if err != nil || len(records) != 8 || string(records[0].Value) != fmt.Sprint(n-1) {
		t.Errorf("%d records, first %s, %v", len(records), records[0].Value, err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
