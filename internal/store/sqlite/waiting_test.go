package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// A store that waits for room can be read, refuses writes, and takes them after Maintain.
func TestOpenWaiting(t *testing.T) {
	for name, records := range map[string]int{"new": 0, "filled": 100} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			if records > 0 {
				path = fill(t, records/2)
			}
			s, err := OpenWaiting(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			all, rev, err := s.Snapshot(t.Context(), "")
			if err != nil || len(all) != records {
				t.Fatalf("%d records, %v", len(all), err)
			}
			if _, err := apply(s, put("a", "1")); !errors.Is(err, store.ErrFull) || !errors.Is(s.Waiting(), store.ErrFull) {
				t.Errorf("a write: %v, waiting: %v", err, s.Waiting())
			}
			if _, err := OpenWaiting(t.Context(), path); !errors.Is(err, ErrInUse) {
				t.Errorf("a second one: %v", err)
			}
			if restored, err := s.Maintain(t.Context()); restored || err != nil || s.Waiting() != nil {
				t.Errorf("%v, %v, waiting: %v", restored, err, s.Waiting())
			}
			if now := mustApply(t, s, put("a", "1")); now <= rev {
				t.Errorf("revision %d after %d", now, rev)
			}
			if all, _, err := s.Snapshot(t.Context(), ""); err != nil || len(all) != records+1 {
				t.Errorf("%d records, %v", len(all), err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			mustOpen(t, path)
		})
	}
	// It may end without ever having had room.
	s, err := OpenWaiting(t.Context(), fill(t, 50))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	// What is only in a log cannot be read without room for its index.
	open := mustOpen(t, fill(t, 50))
	mustApply(t, open, put("a", "1"))
	if _, err := OpenWaiting(t.Context(), copyFiles(t, open.Path(), "", "-wal", markSuffix)); !errors.Is(err, store.ErrFull) {
		t.Errorf("with a log: %v", err)
	}
}
