package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// killed copies the files of a store that is open into a directory, as SIGKILL
// would leave them: with all commits in the write-ahead log.
func killed(t *testing.T, dir string, records int) (path string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, from)
	for i := range records {
		mustApply(t, s, put(fmt.Sprintf("rec/%05d", i), "value"))
	}
	path = filepath.Join(dir, "state 100%?.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(path+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// content describes the files of a directory.
func content(t *testing.T, dir string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintln(e.Name(), info.Size(), info.Mode(), info.ModTime())
	}
	return all
}

func mustRead(t *testing.T, path string, records int) *Store {
	t.Helper()
	s, err := OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatalf("open to read: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	all, rev, err := s.Snapshot(t.Context(), "rec")
	if err != nil || len(all) != records || rev == 0 {
		t.Fatalf("%d records at %d, %v; want %d", len(all), rev, err, records)
	}
	return s
}

// A store can be read wherever its last user has left it, and is not changed by that.
func TestOpenReadOnly(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T) string{
		"closed": func(t *testing.T) string { return fill(t, 500) },
		"killed": func(t *testing.T) string { return killed(t, t.TempDir(), 500) },
		"killed, then to read only": func(t *testing.T) string {
			dir := mountTmpfs(t, "16m")
			path := killed(t, dir, 500)
			remount(t, dir, true)
			return path
		},
		"closed, then to read only": func(t *testing.T) string {
			dir := mountTmpfs(t, "16m")
			path := filepath.Join(dir, "state.db")
			if err := os.Rename(fill(t, 500), path); err != nil {
				data, err := os.ReadFile(fill(t, 500))
				if err == nil {
					err = os.WriteFile(path, data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			remount(t, dir, true)
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := prepare(t)
			before := content(t, filepath.Dir(path))
			s := mustRead(t, path, 500)
			page, _, err := s.Scan(t.Context(), "rec", "rec/00009", 5)
			if err != nil || len(page) != 5 || page[0].Key != "rec/00010" {
				t.Errorf("a page of %d, %v", len(page), err)
			}
			if _, err := apply(s, put("rec/new", "v")); !errors.Is(err, store.ErrReadOnly) {
				t.Errorf("a write: %v", err)
			}
			if _, err := s.Acquire(t.Context(), "lease", time.Second); !errors.Is(err, store.ErrReadOnly) {
				t.Errorf("a lease: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if after := content(t, filepath.Dir(path)); after != before {
				t.Errorf("the files have changed from\n%sto\n%s", before, after)
			}
		})
	}
}

// A reader does not keep the store from being opened, and learns of it.
func TestOpenReadOnlyMoves(t *testing.T) {
	path := killed(t, t.TempDir(), 100)
	reader := mustRead(t, path, 100)
	s := mustOpen(t, path)
	mustApply(t, s, put("rec/new", "v"))
	if _, _, err := reader.Snapshot(t.Context(), "rec"); !errors.Is(err, ErrMoved) {
		t.Errorf("a read of what has changed: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	mustApply(t, s, put("rec/other", "v"))
	if all, _, err := s.Snapshot(t.Context(), "rec"); err != nil || len(all) != 102 {
		t.Errorf("%d records, %v", len(all), err)
	}
}

func TestOpenReadOnlyRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{filepath.Join(dir, "missing.db"), file("empty.db", "")} {
		if _, err := OpenReadOnly(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	var bad *FileError
	if _, err := OpenReadOnly(t.Context(), file("text.db", "this is no database, but a text that is long enough")); !errors.As(err, &bad) || bad.Kind != Damaged {
		t.Errorf("a text: %v", err)
	}
}

// TestOpenReadOnlyFollowsNoLinks checks that neither the store nor its log is
// read through a link.
func TestOpenReadOnlyFollowsNoLinks(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		path := killed(t, t.TempDir(), 3)
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Rename(path+suffix, elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, path+suffix); err != nil {
			t.Fatal(err)
		}
		s, err := OpenReadOnly(t.Context(), path)
		if err == nil {
			_, _, err = s.Snapshot(t.Context(), "")
			s.Close()
		}
		if err == nil {
			t.Errorf("a link at state.db%s is followed", suffix)
		} else {
			t.Log(err)
		}
	}
}
