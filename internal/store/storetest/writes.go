package storetest

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// testWrites counts what is written.
func testWrites(t *testing.T, b Backend) {
	s := b.open(t)
	before := store.WritesOf(s)
	must(t, s, put("a", "12"), add("log", "345"), add("log", "6"))
	must(t, s, del("a"))
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, nil); err != nil { // which writes nothing
		t.Error(err)
	}
	_, err := s.Apply(t.Context(), store.Fence{}, []store.Cond{{Key: "a", Rev: 1 << 60}}, []store.Op{put("a", "x")})
	wantErr(t, "a conflict", err, store.ErrConflict)
	now := store.WritesOf(s)
	if got := now.Transactions - before.Transactions; got != 2 {
		t.Errorf("%d transactions were counted, want 2", got)
	}
	if got := now.Records - before.Records; got != 4 {
		t.Errorf("%d records were counted, want 4", got)
	}
	if got := now.Bytes - before.Bytes; got != 3+6+4+1 {
		t.Errorf("%d bytes were counted, want 14", got)
	}
	if now.PerSecond <= 0 {
		t.Errorf("%g writes per second", now.PerSecond)
	}
}
