package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// Whatever happens to the files of an open store, no acknowledged change is lost, and the store
// continues to work.
func TestMaintain(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string) error{
		"nothing":           func(*testing.T, string) error { return nil },
		"removed":           func(_ *testing.T, path string) error { return os.Remove(path) },
		"log removed":       func(_ *testing.T, path string) error { return os.Remove(path + "-wal") },
		"index removed":     func(_ *testing.T, path string) error { return os.Remove(path + "-shm") },
		"directory removed": func(_ *testing.T, path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"truncated":         func(_ *testing.T, path string) error { return os.Truncate(path, 0) },
		"log truncated":     func(_ *testing.T, path string) error { return os.Truncate(path+"-wal", 0) },
		"renamed":           func(_ *testing.T, path string) error { return os.Rename(path, path+".old") },
		"replaced by garbage": func(_ *testing.T, path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("garbage"), 0o600), os.WriteFile(path+"-wal", []byte("garbage"), 0o600))
		},
		"replaced by another store": func(t *testing.T, path string) error {
			other := mustOpen(t, filepath.Join(t.TempDir(), "other.db"))
			mustApply(t, other, put("other", "1"))
			other.Close()
			return os.Rename(other.Path(), path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "state.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, path)
			mustApply(t, s, put("before", "1"), add("log", "1"))
			if restored, err := s.Maintain(t.Context()); restored || err != nil {
				t.Fatalf("before anything has happened: %v, %v", restored, err)
			}
			if err := harm(t, path); err != nil {
				t.Fatal(err)
			}
			mustApply(t, s, put("between", "1"), add("log", "2"))
			// Others write and read meanwhile.
			var others sync.WaitGroup
			for i := range 4 {
				others.Go(func() {
					for n := range 20 {
						if _, err := apply(s, put(fmt.Sprintf("w/%d-%d", i, n), "1"), add("log", "x")); err != nil {
							t.Error(err)
						}
						if _, _, err := s.Snapshot(t.Context(), "w"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			if restored, err := s.Maintain(t.Context()); restored != (name != "nothing") || err != nil {
				t.Errorf("restored: %v, %v", restored, err)
			}
			others.Wait()
			mustApply(t, s, put("after", "1"))
			if restored, err := s.Maintain(t.Context()); restored || err != nil {
				t.Errorf("a second time: %v, %v", restored, err)
			}
			_, rev, err := s.Snapshot(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = mustOpen(t, path)
			records, again, err := s.Snapshot(t.Context(), "")
			if err != nil || again != rev || len(records) != 3+2+80+80 {
				t.Errorf("%d records at revision %d, %v; want %d at %d", len(records), again, err, 3+2+80+80, rev)
			}
			log, _, _ := s.Snapshot(t.Context(), "log")
			if seq, _ := store.ParseSequenceKey("log", log[len(log)-1].Key); seq != 82 {
				t.Errorf("the last number is %d", seq)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			aside, _ := filepath.Glob(path + ".replaced-*")
			if kept := len(aside) > 0; kept != (name == "replaced by garbage" || name == "replaced by another store") {
				t.Errorf("kept: %v", aside)
			}
			s.Close()
			if _, err := os.Stat(path + ".restoring"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("left behind: %v", err)
			}
		})
	}
}

// A read needs no write before it to find what was there.
func TestReadAfterCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	mustApply(t, s, put("a", "1"))
	if _, err := s.Maintain(t.Context()); err != nil { // which folds the log into the file
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	records, _, err := s.Snapshot(t.Context(), "a")
	if err != nil || len(records) != 1 || string(records[0].Value) != "1" {
		t.Errorf("read %v, %v", records, err)
	}
	if restored, err := s.Maintain(t.Context()); !restored || err != nil {
		t.Errorf("afterwards: %v, %v", restored, err)
	}
}

// If the files cannot be written again, the store continues with the old ones until they can.
func TestMaintainFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "4m")
	path := filepath.Join(dir, "state.db")
	s := mustOpen(t, path)
	for i := range 100 {
		mustApply(t, s, put(fmt.Sprint("k/", i), string(make([]byte, 5000))))
	}
	filler := filepath.Join(dir, "filler")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	for range 2 {
		if restored, err := s.Maintain(t.Context()); restored || !errors.Is(err, store.ErrFull) {
			t.Errorf("on a full disk: %v, %v", restored, err)
		}
		if got, _, err := s.Snapshot(t.Context(), "k"); len(got) != 100 || err != nil {
			t.Errorf("%d records, %v", len(got), err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if restored, err := s.Maintain(t.Context()); !restored || err != nil {
		t.Errorf("with room: %v, %v", restored, err)
	}
	s.Close()
	s = mustOpen(t, path)
	if got, _, err := s.Snapshot(t.Context(), "k"); len(got) != 100 || err != nil {
		t.Errorf("%d records, %v", len(got), err)
	}
}
