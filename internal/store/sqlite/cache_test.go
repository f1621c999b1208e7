package sqlite

import (
	"path/filepath"
	"testing"
)

// The caches of all connections are a cost of every daemon, also of one with a single agent.
func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	size := func(row interface{ Scan(...any) error }) (kib int) {
		t.Helper()
		if err := row.Scan(&kib); err != nil || kib >= 0 {
			t.Fatalf("size %d: %v", kib, err)
		}
		return -kib
	}
	total := size(s.writer.conn.QueryRowContext(t.Context(), "PRAGMA cache_size"))
	for range readConns {
		c, err := s.readers.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // not before the others are there
		total += size(c.QueryRowContext(t.Context(), "PRAGMA cache_size"))
	}
	if total > 8<<10 {
		t.Errorf("up to %d KiB", total)
	}
}
