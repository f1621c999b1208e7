package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// checkAtomic fails the test unless both records of each pair are there or neither.
func checkAtomic(t *testing.T, s *Store, acked map[string]bool) {
	t.Helper()
	records, _, err := s.Snapshot(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range records {
		if _, pair, ok := strings.Cut(r.Key, "/pair/"); ok {
			n[pair]++
		}
	}
	for pair, have := range n {
		if have != 2 {
			t.Errorf("%s is half there", pair)
		}
		if !acked[pair] {
			t.Errorf("%s was refused and is there", pair)
		}
	}
	for pair := range acked {
		if n[pair] != 2 {
			t.Errorf("%s was acknowledged and is not there", pair)
		}
	}
}

// pairs writes pairs from many goroutines until each has been refused, and returns what was acknowledged.
func pairs(t *testing.T, s *Store, name string, want error) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	acked := map[string]bool{}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 10_000 {
				pair := fmt.Sprintf("%s-%d-%d", name, w, i)
				_, err := apply(s, put("x/pair/"+pair, strings.Repeat("x", 2000)), put("y/pair/"+pair, strings.Repeat("y", 2000)))
				if err != nil {
					if !errors.Is(err, want) || !store.Refused(err) || !strings.Contains(err.Error(), s.Path()) {
						t.Errorf("refused with %v", err)
					}
					return
				}
				mu.Lock()
				acked[pair] = true
				mu.Unlock()
			}
			t.Error("never refused")
		})
	}
	wg.Wait()
	return acked
}

func testFull(t *testing.T, s *Store, makeRoom func()) {
	acked := pairs(t, s, "a", store.ErrFull)
	if len(acked) == 0 {
		t.Fatal("nothing was ever written")
	}
	checkAtomic(t, s, acked)
	// Reads and pure checks go on; a conflict is still a conflict.
	if _, err := apply(s); err != nil {
		t.Errorf("a check: %v", err)
	}
	_, err := s.Apply(context.Background(), store.Fence{}, []store.Cond{{Key: "none", Rev: 1}}, []store.Op{put("x", "")})
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("stale condition: %v", err)
	}
	_, rev, _ := s.Snapshot(t.Context(), "")

	makeRoom()
	next, err := apply(s, put("x/pair/after", ""), put("y/pair/after", ""))
	if err != nil || next <= rev {
		t.Fatalf("after there is room: revision %d after %d, %v", next, rev, err)
	}
	acked["after"] = true
	checkAtomic(t, s, acked)
	for c, err := range s.Watch(t.Context(), "", rev) {
		if err != nil || c.Rev != next {
			t.Errorf("the watch saw %d, %v; want %d", c.Rev, err, next)
		}
		break
	}
	s.Close()
	s = mustOpen(t, s.Path())
	checkAtomic(t, s, acked)
}

// SQLite's own limit stands for the disk where no file system may be mounted.
func TestFull(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	var n int
	if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA max_page_count = 200").Scan(&n); err != nil || n != 200 {
		t.Fatalf("%d, %v", n, err)
	}
	testFull(t, s, func() {
		if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA max_page_count = 100000").Scan(&n); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "4m")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, filepath.Join(dir, "state.db"))
	testFull(t, s, func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	})
}

// A full disk at the start is an error that says so.
func TestOpenFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "64k")
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "state.db"))
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("open: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	mustApply(t, s, put("x/pair/before", ""), put("y/pair/before", ""))
	if err := s.writer.conn.exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	if acked := pairs(t, s, "a", store.ErrReadOnly); len(acked) > 0 {
		t.Errorf("%d writes", len(acked))
	}
	checkAtomic(t, s, map[string]bool{"before": true})
	if err := s.writer.conn.exec("PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
	mustApply(t, s, put("x/pair/after", ""), put("y/pair/after", ""))
	checkAtomic(t, s, map[string]bool{"before": true, "after": true})
}

func TestOpenReadOnlyDisk(t *testing.T) {
	dir := mountTmpfs(t, "4m")
	path := filepath.Join(dir, "state.db")
	s := mustOpen(t, path)
	mustApply(t, s, put("a", "1"))
	s.Close()
	remount(t, dir, true)
	if _, err := Open(t.Context(), path); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("open: %v", err)
	}
	remount(t, dir, false)
	mustOpen(t, path).Close()
}
