package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Import fails where anything was written before, and changes nothing.
func testNotEmpty(t *testing.T, b Backend) {
	ctx := context.Background()
	for name, fill := range map[string]func(s store.Store){
		"a record": func(s store.Store) { must(t, s, put("a", "1")) },
		"a sequence": func(s store.Store) {
			must(t, s, add("log", "1"))
			must(t, s, del(store.SequenceKey("log", 1)))
		},
		"an epoch":        func(s store.Store) { acquire(t, s, "ctl", time.Minute).Release(ctx) },
		"an import":       func(s store.Store) { s.(copyable).Import(ctx, list(nil, epoch(3))) },
		"imported record": func(s store.Store) { s.(copyable).Import(ctx, list(nil, record("a", "1"))) },
	} {
		s := b.openCopyable(t)
		fill(s)
		before := entriesText(exported(t, s))
		for what, entries := range map[string][]store.Entry{"nothing": nil, "entries": {epoch(9), record("b", "2")}} {
			err := s.Import(ctx, list(nil, entries...))
			wantErr(t, "import of "+what+" into a store with "+name, err, store.ErrNotEmpty)
		}
		if after := entriesText(exported(t, s)); after != before || before == "" {
			t.Errorf("%s: the store has %s, had %s", name, after, before)
		}
		must(t, s, put("c", "3"))
	}
}

// An import that is interrupted leaves an empty store, which can be filled.
func testInterrupted(t *testing.T, b Backend) {
	ctx := context.Background()
	entries := []store.Entry{sequence("log", 2000), epoch(7)}
	for i := range 2000 {
		entries = append(entries, record(store.SequenceKey("log", uint64(i+1)), strings.Repeat("v", 500)))
	}
	failed := errors.New("the source has failed")
	for _, n := range []int{0, 1, 2, 3, 70, 1500, len(entries)} {
		s := b.openCopyable(t)
		wantErr(t, fmt.Sprintf("error after %d entries", n), s.Import(ctx, list(failed, entries[:n]...)), failed)
		checkEmpty(t, s)
		canceled, cancel := context.WithCancel(ctx)
		err := s.Import(canceled, func(yield func(store.Entry, error) bool) {
			for i, e := range entries {
				if i == n {
					cancel()
				}
				if !yield(e, nil) {
					return
				}
			}
			cancel()
		})
		cancel()
		wantErr(t, fmt.Sprintf("end of the context after %d entries", n), err, context.Canceled)
		checkEmpty(t, s)
		if err := s.Import(ctx, list(nil, entries...)); err != nil {
			t.Fatalf("import after one that failed: %v", err)
		}
		if got := len(exported(t, s)); got != len(entries) {
			t.Errorf("%d entries, want %d", got, len(entries))
		}
	}
}

// checkEmpty checks that nothing is in a store.
func checkEmpty(t testing.TB, s copyable) {
	t.Helper()
	if got := entriesText(exported(t, s)); got != "" {
		t.Errorf("the store has %.200s", got)
	}
	if got := text(all(t, s, "")); got != "" {
		t.Errorf("the store has records: %.200s", got)
	}
}

// testReopenCopy reopens stores after an import and after one that failed.
func testReopenCopy(t *testing.T, b Backend) {
	ctx := context.Background()
	for _, failed := range []error{nil, errors.New("the source has failed")} {
		dir := t.TempDir()
		s, ok := b.openDir(t, dir).(copyable)
		if !ok {
			t.Fatal("the store cannot be copied")
		}
		err := s.Import(ctx, list(failed, sequence("log", 5), epoch(1<<40), record("a", "1")))
		wantErr(t, "import", err, failed)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = b.openDir(t, dir).(copyable)
		if failed != nil {
			checkEmpty(t, s)
			continue
		}
		if got := withoutEpoch(exported(t, s)); got != "log:5 a=1" {
			t.Errorf("reopened, the store has %s", got)
		}
		if got := acquire(t, s, "ctl", time.Minute).Fence().Epoch; got <= 1<<40 {
			t.Errorf("epoch %d", got)
		}
		must(t, s, add("log", "next"))
		if got := text(all(t, s, "log")); got != store.SequenceKey("log", 6)+"=next" {
			t.Errorf("the log has %s", got)
		}
	}
}

// A watch does not miss an import.
func testImportWatched(t *testing.T, b Backend) {
	b.inTime(t, "import", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s := b.openCopyable(t)
		_, rev, err := s.Snapshot(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Import(ctx, list(nil, record("a", "1"))); err != nil {
			t.Fatal(err)
		}
		for c, err := range s.Watch(ctx, "", rev) {
			if !errors.Is(err, store.ErrCompacted) && (err != nil || text(c.Put) != "a=1") {
				t.Errorf("watch from before the import: %+v, %v", c, err)
			}
			break
		}
		if _, rev, err = s.Snapshot(ctx, ""); err != nil {
			t.Fatal(err)
		}
		must(t, s, put("b", "2"))
		for c, err := range s.Watch(ctx, "", rev) {
			if err != nil || text(c.Put) != "b=2" {
				t.Errorf("change after the import: %+v, %v", c, err)
			}
			break
		}
	})
}
