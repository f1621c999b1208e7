package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// copyFiles copies the files of an open store as a process that is killed leaves them.
func copyFiles(t *testing.T, path string, suffixes ...string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "state.db")
	for _, suffix := range suffixes {
		if err := copyFile(path+suffix, copied+suffix); err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// A store that was emptied, removed, replaced, or has lost its last changes is
// refused, and nothing is made in its place.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, path string) error
		left int // records that Repair saves
	}{
		"emptied": {func(_ *testing.T, path string) error { return os.Truncate(path, 0) }, 0},
		"removed": {func(_ *testing.T, path string) error { return os.Remove(path) }, 0},
		"removed, the mark damaged": {func(_ *testing.T, path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path+markSuffix, nil, 0o600))
		}, 0},
		"replaced by another": {func(t *testing.T, path string) error {
			return os.Rename(fill(t, 50), path)
		}, 100},
		"replaced by an older one": {func(t *testing.T, path string) error {
			older := copyFiles(t, path, "")
			s := mustOpen(t, path)
			mustApply(t, s, put("later", "1"))
			s.Close()
			return os.Rename(older, path)
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			path := fill(t, 100)
			if err := c.harm(t, path); err != nil {
				t.Fatal(err)
			}
			checkLost(t, path, c.left)
		})
	}
	t.Run("log removed", func(t *testing.T) {
		s := mustOpen(t, fill(t, 100))
		mustApply(t, s, put("in the log only", "1"))
		mustOpen(t, copyFiles(t, s.Path(), "", "-wal", markSuffix)).Close()
		checkLost(t, copyFiles(t, s.Path(), "", markSuffix), 200)
	})
}

func checkLost(t *testing.T, path string, left int) {
	t.Helper()
	_, rev, _ := readMark(path)
	before, _ := os.ReadFile(path)
	var bad *FileError
	for range 2 {
		_, err := Open(t.Context(), path)
		if !errors.As(err, &bad) || bad.Kind != Lost || !strings.Contains(err.Error(), "coppice restore") || !strings.Contains(err.Error(), "doctor --fix") {
			t.Fatalf("open: %v", err)
		}
	}
	t.Log(bad)
	if after, _ := os.ReadFile(path); len(before) == 0 && len(after) > 0 {
		t.Errorf("%d bytes where there were none", len(after))
	}
	r, err := Repair(t.Context(), path)
	if err != nil || r.Salvaged != left {
		t.Fatalf("repair: %+v, %v", r, err)
	}
	s := mustOpen(t, path)
	records, now, err := s.Snapshot(t.Context(), "")
	if err != nil || now <= rev || len(records) != left {
		t.Errorf("%d records at revision %d, the mark was %d; %v", len(records), now, rev, err)
	}
	mustApply(t, s, put("a", "1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
}

// The mark is made again from a store that is whole.
func TestMarkRestored(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 500)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := fill(t, 50)
			id, rev, err := readMark(path)
			if err != nil || id == "" || rev == 0 {
				t.Fatalf("%q, %d, %v", id, rev, err)
			}
			if err := harm(path + markSuffix); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, path)
			if again, now, err := readMark(path); again != id || s.ID() != id || now != rev || err != nil {
				t.Errorf("%q at %d, was %q at %d; %v", again, now, id, rev, err)
			}
			if info, err := os.Stat(path + markSuffix); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			// It follows each commit.
			want := mustApply(t, s, put("a", "1"))
			if _, now, err := readMark(path); now != want || err != nil {
				t.Errorf("the mark is at %d, the store at %d; %v", now, want, err)
			}
		})
	}
}

// Changes that were acknowledged after the files were damaged are in the new files, even if the
// process is killed before Maintain runs.
func TestHarmedAndKilled(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"truncated":     func(path string) error { return os.Truncate(path, 0) },
		"half":          func(path string) error { return os.Truncate(path, 8192) },
		"log truncated": func(path string) error { return os.Truncate(path+"-wal", 0) },
		"removed":       os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, fill(t, 200))
			mustApply(t, s, put("before", "1"))
			if err := harm(s.Path()); err != nil {
				t.Fatal(err)
			}
			mustApply(t, s, put("after", "1"))
			dead := mustOpen(t, copyFiles(t, s.Path(), "", "-wal", markSuffix))
			if records, _, err := dead.Snapshot(t.Context(), ""); err != nil || len(records) != 402 {
				t.Errorf("%d records, %v", len(records), err)
			}
			if restored, err := s.Maintain(t.Context()); !restored || err != nil {
				t.Errorf("restored: %v, %v", restored, err)
			}
			if restored, err := s.Maintain(t.Context()); restored || err != nil {
				t.Errorf("a second time: %v, %v", restored, err)
			}
		})
	}
}

// A store that is larger than what is in memory cannot be saved as a whole when its
// file is truncated. That is said, and what is left is kept.
func TestTruncatedLarge(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "state.db"))
	value := strings.Repeat("v", 100_000)
	for i := range 40 {
		var ops []store.Op
		for j := range 10 {
			ops = append(ops, put("rec/"+string(rune('a'+i/10))+string(rune('a'+i%10))+string(rune('a'+j)), value))
		}
		mustApply(t, s, ops...)
	}
	id := s.ID()
	s.Close()
	s = mustOpen(t, s.Path())
	mustApply(t, s, put("before", "1"))
	if err := os.Truncate(s.Path(), 0); err != nil {
		t.Fatal(err)
	}
	restored, err := s.Maintain(t.Context())
	if !restored || err == nil || !strings.Contains(err.Error(), "lost") {
		t.Fatalf("restored: %v, %v", restored, err)
	}
	t.Log(err)
	mustApply(t, s, put("after", "1"))
	if s.ID() == id {
		t.Error("it has the id of the store that was whole")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = mustOpen(t, s.Path())
	if records, _, err := s.Snapshot(t.Context(), "after"); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// Maintain copies the log into the main file, so the file alone is not an empty store.
func TestCheckpoint(t *testing.T) {
	s := mustOpen(t, fill(t, 100))
	mustApply(t, s, put("a", "1"))
	if _, err := s.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone := mustOpen(t, copyFiles(t, s.Path(), "", markSuffix))
	if records, _, err := alone.Snapshot(t.Context(), "a"); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// A store of the version before has no mark and gets one.
func TestFirstSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := copyFile(filepath.Join("testdata", "schema1.db"), path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := mustOpen(t, path)
		records, rev, err := s.Snapshot(t.Context(), "")
		if err != nil || len(records) != 82 || rev != 41 {
			t.Fatalf("%d records at revision %d, %v", len(records), rev, err)
		}
		if log, _, _ := s.Snapshot(t.Context(), "log"); len(log) != 40 || string(log[39].Value) != "event 39" || log[39].Rev != 40 {
			t.Errorf("%d in the log, the last is %+v", len(log), log[len(log)-1])
		}
		if id, at, err := readMark(path); id == "" || at != 41 || err != nil {
			t.Errorf("mark %q at %d, %v", id, at, err)
		}
		s.Close()
	}
}
