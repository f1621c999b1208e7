package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// crashImporter makes the test binary the importer that is to be killed.
const crashImporter = "COPPICE_TEST_STORE_IMPORTER"

const importedRecords = 5_000

// entries yields the entries that an importer imports, and calls each after each of them.
func entries(each func(n int)) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		ok := yield(store.Entry{Kind: store.SequenceEntry, Key: "log", Number: 2 * importedRecords}, nil) &&
			yield(store.Entry{Kind: store.EpochEntry, Number: 7}, nil)
		for n := 1; ok && n <= importedRecords; n++ {
			key := store.SequenceKey("log", uint64(n))
			ok = yield(store.Entry{Kind: store.RecordEntry, Key: key, Value: []byte(strings.Repeat(key, 60))}, nil)
			each(n)
		}
	}
}

// importLoudly imports, and prints a line for each 100 records and when it is done.
func importLoudly(path string, out io.Writer) error {
	s, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	err = s.Import(context.Background(), entries(func(n int) {
		if n%100 == 0 {
			fmt.Fprintln(out, n)
		}
	}))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "imported")
	err = s.Close()
	fmt.Fprintln(out, "closed")
	return err
}

// countEntries returns how many entries a store has.
func countEntries(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, err := range s.Export(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestImportCrash kills importers with SIGKILL at random moments. Each leaves an empty store or a whole one.
func TestImportCrash(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 3
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	empty, whole := 0, 0
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "state.db")
		cmd, lines := startSelf(t, crashImporter, path)
		// In the middle, or around the commit and the end.
		const total = importedRecords / 100
		after := []int{1 + random.IntN(total), total, total + 1}[round%3]
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		last := ""
		for n := 0; lines != nil; {
			select {
			case line, ok := <-lines:
				if !ok {
					lines = nil
					break
				}
				last = line
				if n++; n == after {
					timer.Reset(time.Duration(random.IntN(10_000)) * time.Microsecond)
				}
			case <-timer.C:
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatalf("round %d, after %q: %v", round, last, err)
		}
		switch n := countEntries(t, s); {
		case n == importedRecords+2:
			whole++
		case n == 0 && last != "imported" && last != "closed":
			empty++
			if err := s.Import(t.Context(), entries(func(int) {})); err != nil {
				t.Errorf("round %d: import after one that was killed: %v", round, err)
			}
		default:
			t.Errorf("round %d: %d entries after %q", round, n, last)
		}
		if err := errors.Join(s.Verify(t.Context()), s.Close()); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	t.Logf("%d empty, %d whole", empty, whole)
	if empty == 0 || whole == 0 {
		t.Errorf("%d stores are empty and %d whole, expected both", empty, whole)
	}
}

// Damaged records are left out and named.
func TestExportDamaged(t *testing.T) {
	s := mustOpen(t, fill(t, 100))
	corrupt(t, s, "value = x'01'", "rec/00007")
	if n, want := countEntries(t, s), 100+100+1-1; n != want {
		t.Errorf("%d entries, want %d", n, want)
	}
	if d := s.Damaged(); len(d) != 1 || d[0] != "rec/00007" {
		t.Errorf("damaged: %v", d)
	}
	// The number of a damaged record was used, too.
	key := store.SequenceKey("log", 500)
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{put(key, "v")}); err != nil {
		t.Fatal(err)
	}
	corrupt(t, s, "value = x'01'", key)
	for e, err := range s.Export(t.Context()) {
		if err != nil || e.Key != "log" || e.Number != 500 {
			t.Errorf("%v %d, %v", e, e.Number, err)
		}
		break
	}
	// A store has such records only until they are written again, and it is not empty.
	if err := s.Import(t.Context(), entries(func(int) {})); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("import: %v", err)
	}
}

// A store that is open for reading is exported, and not written to.
func TestCopyReadOnly(t *testing.T) {
	path := fill(t, 100)
	s, err := OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := countEntries(t, s); n != 201 {
		t.Errorf("%d entries", n)
	}
	if err := s.Import(t.Context(), entries(func(int) {})); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("import: %v", err)
	}
	for _, err = range s.Export(t.Context()) {
		if err == nil {
			other := time.Unix(1, 0)
			if err := os.Chtimes(path, other, other); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !errors.Is(err, ErrMoved) {
		t.Errorf("export of a file that was changed: %v", err)
	}
}

// Writes wait for an import, and find what it has left.
func TestImportBusy(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	failed := errors.New("the source has failed")
	var writes []chan error
	write := func(key string) {
		done := make(chan error)
		writes = append(writes, done)
		go func() {
			_, err := s.Apply(t.Context(), store.Fence{}, []store.Cond{{Key: "log/first"}}, []store.Op{put(key, "v")})
			done <- err
		}()
	}
	err := s.Import(t.Context(), func(yield func(store.Entry, error) bool) {
		write("a")
		yield(store.Entry{Kind: store.RecordEntry, Key: "log/first"}, nil)
		yield(store.Entry{}, failed)
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if err := <-writes[0]; err != nil {
		t.Errorf("write during an import that failed: %v", err)
	}
	s = mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	err = s.Import(t.Context(), func(yield func(store.Entry, error) bool) {
		write("a")
		yield(store.Entry{Kind: store.RecordEntry, Key: "log/first"}, nil)
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-writes[1]; !errors.Is(err, store.ErrConflict) {
		t.Errorf("write during an import: %v", err)
	}
	if restored, err := s.Maintain(t.Context()); restored || err != nil {
		t.Errorf("maintain: %v, %v", restored, err)
	}
}

// An import that finds no room leaves an empty store, which can be filled when there is room.
func TestImportFull(t *testing.T) {
	s := mustOpen(t, filepath.Join(mountTmpfs(t, "4m"), "state.db"))
	if err := s.Import(t.Context(), entries(func(int) {})); !errors.Is(err, store.ErrFull) {
		t.Errorf("import: %v", err)
	}
	if n := countEntries(t, s); n != 0 {
		t.Errorf("%d entries", n)
	}
	if err := s.Import(t.Context(), func(yield func(store.Entry, error) bool) {
		yield(store.Entry{Kind: store.RecordEntry, Key: "a", Value: []byte("small")}, nil)
	}); err != nil {
		t.Errorf("import of what fits: %v", err)
	}
	if n := countEntries(t, s); n != 1 {
		t.Errorf("%d entries", n)
	}
}

// The cache of sequences is not that of the store before the import.
func TestImportSequences(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	s.writer.sequences["log"] = 0
	if err := s.Import(t.Context(), entries(func(int) {})); err != nil {
		t.Fatal(err)
	}
	mustApply(t, s, add("log", "next"))
	records, _, err := s.Snapshot(t.Context(), store.SequenceKey("log", 2*importedRecords+1))
	if err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}
