package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A backup that is made while others write has each write whole, and all that was
// acknowledged before it began.
func TestBackupDuringWrites(t *testing.T) {
	s := mustOpen(t, fill(t, 100))
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				pair := fmt.Sprintf("%d-%d", w, i)
				if _, err := apply(s, put("x/pair/"+pair, "x"), put("y/pair/"+pair, "y")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 5 {
		before := mustApply(t, s, put("before", fmt.Sprint(i)))
		to := filepath.Join(t.TempDir(), "backup.db")
		rev, err := Backup(t.Context(), s.Path(), to)
		if err != nil || rev < before {
			t.Fatalf("backup at revision %d, before %d: %v", rev, before, err)
		}
		if info, _ := os.Stat(to); info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		restored := filepath.Join(t.TempDir(), "state.db")
		r, err := Restore(t.Context(), restored, to)
		if err != nil || r.Rev != rev || r.Aside != "" {
			t.Fatalf("restore: %+v, %v", r, err)
		}
		copied := mustOpen(t, restored)
		records, now, err := copied.Snapshot(t.Context(), "")
		if err != nil || len(records) != r.Records || now <= rev || copied.ID() == s.ID() {
			t.Errorf("%d records at revision %d, %v; %+v", len(records), now, err, r)
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
		}
		if one, _, _ := copied.Snapshot(t.Context(), "before"); len(one) != 1 || string(one[0].Value) != fmt.Sprint(i) {
			t.Errorf("before: %+v", one)
		}
		copied.Close()
		if _, err := Backup(t.Context(), s.Path(), to); err == nil || !strings.Contains(err.Error(), "exists") {
			t.Errorf("over another: %v", err)
		}
	}
	close(stop)
	writers.Wait()
}

// What was there is kept, and numbers go on after it.
func TestRestore(t *testing.T) {
	path := fill(t, 100)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := Backup(t.Context(), path, backup); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path)
	last := mustApply(t, s, put("later", "1"))
	if _, err := Restore(t.Context(), path, backup); !errors.Is(err, ErrInUse) {
		t.Errorf("restore of an open store: %v", err)
	}
	id := s.ID()
	s.Close()
	r, err := Restore(t.Context(), path, backup)
	if err != nil || r.Records != 200 || !strings.HasPrefix(r.Aside, path+".replaced-") {
		t.Fatalf("%+v, %v", r, err)
	}
	s = mustOpen(t, path)
	records, now, err := s.Snapshot(t.Context(), "")
	if err != nil || len(records) != 200 || now <= last || s.ID() == id {
		t.Errorf("%d records at revision %d, %v", len(records), now, err)
	}
	mustApply(t, s, add("log", "x"))
	s.Close()
	old := mustOpen(t, copyFiles(t, r.Aside, ""))
	if records, _, err := old.Snapshot(t.Context(), "later"); err != nil || len(records) != 1 {
		t.Errorf("aside: %d records, %v", len(records), err)
	}
	// A store that was lost, too.
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), path, backup+".2"); err == nil {
		t.Error("a backup of a store that was lost")
	}
	if r, err := Restore(t.Context(), path, backup); err != nil || r.Records != 200 {
		t.Fatalf("%+v, %v", r, err)
	}
	mustOpen(t, path)
	// And one of the version before.
	first := filepath.Join(t.TempDir(), "state.db")
	if r, err := Restore(t.Context(), first, filepath.Join("testdata", "schema1.db")); err != nil || r.Records != 82 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// What is no whole backup is refused, and the store stays as it was.
func TestRestoreRefused(t *testing.T) {
	path := fill(t, 500)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := Backup(t.Context(), path, backup); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	write := func(data []byte) func(string) error {
		return func(name string) error { return os.WriteFile(name, data, 0o600) }
	}
	exec := func(statement string) func(string) error {
		return func(name string) error {
			if err := os.WriteFile(name, good, 0o600); err != nil {
				return err
			}
			db, err := sql.Open("sqlite", name)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec(statement)
			return err
		}
	}
	for name, c := range map[string]struct {
		make func(name string) error
		want string
	}{
		"missing":   {func(string) error { return nil }, "no such file"},
		"empty":     {write(nil), "it is empty"},
		"text":      {write([]byte("not a backup, by far")), "no SQLite database"},
		"truncated": {write(good[:len(good)/2]), "cannot be restored"},
		"short":     {write(good[:10]), "no SQLite database"},
		"newer":     {exec("PRAGMA user_version = 99"), "written by a newer version (schema 99"},
		"foreign":   {exec("PRAGMA application_id = 7"), "database of another program"},
		"changed":   {exec("UPDATE record SET value = x'00' WHERE key = 'rec/00042'"), "rec/00042"},
		"no tables": {exec("DROP TABLE record"), "cannot be restored"},
		"directory": {func(name string) error { return os.Mkdir(name, 0o700) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := c.make(file); err != nil {
				t.Fatal(err)
			}
			_, err := Restore(t.Context(), path, file)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "doctor") {
				t.Errorf("restore: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the store was changed")
			}
			if left, _ := filepath.Glob(path + ".re*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	mustOpen(t, path)
}
