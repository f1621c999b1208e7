package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// lockFile keeps the writer waiting for the file, so that what comes meanwhile is
// committed together. The returned function waits until n calls are queued behind the one that waits and
// lets it go on.
func lockFile(t *testing.T, s *Store) (release func(n int)) {
	t.Helper()
	if err := s.writer.conn.exec("PRAGMA busy_timeout = 60000"); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", dsn(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func(n int) {
		t.Helper()
		waitFor(t, func() bool { return s.queued() >= n })
		if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
}

func (s *Store) queued() int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// waitFor polls for what gives no sign when it happens.
func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("does not happen")
		}
	}
}

// blockWriter has the writer begin a transaction, which it cannot while the file is held.
func blockWriter(t *testing.T, s *Store, wg *sync.WaitGroup) {
	t.Helper()
	begun := s.writer.taken.Load()
	wg.Go(func() {
		if _, err := apply(s, put("first", "")); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, func() bool { return s.writer.taken.Load() > begun })
}

// Writers that wait for the same commit share it; each has its own result.
func TestGroupCommit(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	mustApply(t, s, put("counter", "0"))
	from := mustApply(t, s, put("taken", ""))
	release := lockFile(t, s)
	var wg sync.WaitGroup
	blockWriter(t, s, &wg)
	commits := s.writer.commits.Load()
	const n = 100
	revs := make([]store.Rev, n)
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			// All want the same revision of the counter: one can have it.
			revs[i], errs[i] = s.Apply(t.Context(), store.Fence{}, []store.Cond{{Key: "counter", Rev: from - 1}}, []store.Op{put("counter", fmt.Sprint(i)), add("log", "")})
		})
		wg.Go(func() {
			if _, err := apply(s, add("log", fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	release(2 * n)
	wg.Wait()
	won := 0
	for i := range n {
		switch {
		case errs[i] == nil:
			won++
		case !errors.Is(errs[i], store.ErrConflict):
			t.Error(errs[i])
		}
	}
	if won != 1 {
		t.Errorf("%d of %d have won the counter", won, n)
	}
	if records, _, _ := s.Snapshot(t.Context(), "log"); len(records) != n+1 {
		t.Errorf("%d records in the log, want %d", len(records), n+1)
	}
	var statFiles []store.Rev
	for c, err := range s.Watch(t.Context(), "log", from) {
		if err != nil {
			t.Fatal(err)
		}
		if statFiles = append(statFiles, c.Rev); len(statFiles) == n+1 {
			break
		}
	}
	if !slices.IsSorted(statFiles) || len(slices.Compact(statFiles)) != n+1 {
		t.Errorf("revisions %v", statFiles)
	}
	if got := s.writer.commits.Load() - commits; got > 3 {
		t.Errorf("%d commits for %d writes that came together", got, n)
	}
}

// A write that has not begun is taken back when its context ends; one that has is waited for.
func TestCancel(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	release := lockFile(t, s)
	var wg sync.WaitGroup
	blockWriter(t, s, &wg)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() {
		_, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{put("canceled", "")})
		errs <- err
	}()
	waitFor(t, func() bool { return s.queued() == 1 })
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v", err)
	}
	release(0)
	wg.Wait()
	if records, _, _ := s.Snapshot(t.Context(), ""); len(records) != 1 || records[0].Key != "first" {
		t.Errorf("%d records", len(records))
	}
}

// When a group does not fit, those of it that do are written all the same.
func TestFullGroup(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	var pages int
	if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA max_page_count = 100").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	release := lockFile(t, s)
	var wg sync.WaitGroup
	blockWriter(t, s, &wg)
	for i := range 10 {
		wg.Go(func() {
			if _, err := apply(s, put(fmt.Sprint("small/", i), "v")); err != nil {
				t.Errorf("small: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := apply(s, put(fmt.Sprint("big/", i), strings.Repeat("v", store.MaxValue)), put(fmt.Sprint("small/big", i), "v")); !errors.Is(err, store.ErrFull) {
				t.Errorf("big: %v", err)
			}
		})
		wg.Go(func() {
			_, err := s.Apply(t.Context(), store.Fence{}, []store.Cond{{Key: "none", Rev: 1}}, []store.Op{put("x", "")})
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("conflict: %v", err)
			}
		})
	}
	release(30)
	wg.Wait()
	if records, _, _ := s.Snapshot(t.Context(), ""); len(records) != 11 {
		t.Errorf("%d records, want 11", len(records))
	}
}
