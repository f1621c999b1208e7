package event

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// gatedStore is a store whose first write waits.
type gatedStore struct {
	*sqlite.Store
	gate   chan struct{}
	writes int
}

func (s *gatedStore) Apply(
	ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op,
) (store.Rev, error) {
	<-s.gate
	s.writes++
	return s.Store.Apply(ctx, fence, conds, ops)
}

// When 1,000 agents end at once, their events share commits, each with the record of its agent.
func TestBurstSharesCommits(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &gatedStore{Store: db, gate: make(chan struct{})}
	l, err := Open(Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	for i := range n {
		path := fmt.Sprint("t/a", i)
		l.Append(Event{Type: AgentStopped, Path: path, Actor: "controller", Message: path + " stopped"},
			store.Op{Kind: store.Put, Key: "nodes/" + path, Value: []byte("{}")})
	}
	close(s.gate)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.writes > 3 { // one of what came first
		t.Errorf("%d writes for %d events", s.writes, n)
	}
	records, _, err := db.Snapshot(t.Context(), "nodes")
	if err != nil || len(records) != n {
		t.Errorf("%d records: %v", len(records), err)
	}
	events, _, err := db.Snapshot(t.Context(), l.prefix)
	if err != nil || len(events) != n {
		t.Errorf("%d events: %v", len(events), err)
	}
}
