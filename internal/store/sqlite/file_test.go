package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

func put(key, value string) store.Op {
	return store.Op{Kind: store.Put, Key: key, Value: []byte(value)}
}

func add(prefix, value string) store.Op {
	return store.Op{Kind: store.Append, Key: prefix, Value: []byte(value)}
}

func apply(s *Store, ops ...store.Op) (store.Rev, error) {
	return s.Apply(context.Background(), store.Fence{}, nil, ops)
}

func mustOpen(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustApply(t testing.TB, s *Store, ops ...store.Op) store.Rev {
	t.Helper()
	rev, err := apply(s, ops...)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return rev
}

// fill makes a store of n records and n appended ones, closes it and returns its path.
func fill(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	for i := 0; i < n; i += 50 {
		var ops []store.Op
		for j := i; j < i+50; j++ {
			ops = append(ops, put(fmt.Sprintf("rec/%05d", j), strings.Repeat("v", 100)), add("log", fmt.Sprint(j)))
		}
		mustApply(t, s, ops...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Older ones can lose data in WAL mode.
func TestVersion(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var version string
	if err := db.QueryRow("SELECT sqlite_version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	var a, b, c int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &a, &b, &c); err != nil || a*1_000_000+b*1_000+c < 3_051_003 {
		t.Errorf("SQLite %s is older than 3.51.3 (%v)", version, err)
	}
}

func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "user_version": fmt.Sprint(len(migrations))} {
		var got string
		if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, want %s (%v)", pragma, got, want, err)
		}
	}
	mustApply(t, s, put("a", "1"))
	files, _ := filepath.Glob(path + "*")
	if len(files) != 5 { // with -wal, -shm, .lock and .mark
		t.Errorf("files: %v", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f, info.Mode(), err)
		}
	}
	s.Close()
	os.Chmod(path, 0o644)
	mustOpen(t, path).Close()
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v after opening a file that others could read", info.Mode())
	}
}

func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := mustOpen(t, path)
	_, err := Open(t.Context(), path)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("second open: %v", err)
	}
	if _, err := Repair(t.Context(), path); !errors.Is(err, ErrInUse) {
		t.Errorf("repair of an open store: %v", err)
	}
	s.Close()
	mustOpen(t, path)
}

func TestMigrate(t *testing.T) {
	path := fill(t, 50)
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	version := func() (n int) {
		db.QueryRow("PRAGMA user_version").Scan(&n)
		return n
	}
	next := append(migrations[:len(migrations):len(migrations)], "CREATE TABLE extra (a); INSERT INTO extra VALUES (1)")
	if err := migrate(t.Context(), db, path, version(), next); err != nil || version() != len(next) {
		t.Fatalf("version %d, %v", version(), err)
	}
	if err := migrate(t.Context(), db, path, version(), next); err != nil {
		t.Errorf("second time: %v", err)
	}
	// A step that fails leaves everything as it was.
	if err := migrate(t.Context(), db, path, version(), append(next, "CREATE TABLE half (a); nonsense")); err == nil || version() != len(next) {
		t.Errorf("version %d after a bad step, %v", version(), err)
	}
	if _, err := db.Exec("SELECT * FROM half"); err == nil {
		t.Error("a bad step was half done")
	}
	db.Close()
	// And now it is newer than this version knows.
	_, err = Open(t.Context(), path)
	var bad *FileError
	if !errors.As(err, &bad) || bad.Kind != Newer || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "doctor --fix") {
		t.Fatalf("open of a newer file: %v", err)
	}
	r, err := Repair(t.Context(), path)
	if err != nil || r.Salvaged != 0 {
		t.Fatalf("repair: %+v, %v", r, err)
	}
	mustOpen(t, path)
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		kind Kind
	}{
		"text":      {func(t *testing.T, path string) { os.WriteFile(path, []byte("this is no database"), 0o600) }, Damaged},
		"short":     {func(t *testing.T, path string) { os.WriteFile(path, []byte("SQLite for"), 0o600) }, Damaged},
		"head only": {func(t *testing.T, path string) { os.WriteFile(path, []byte("SQLite format 3\x00"), 0o600) }, Damaged},
		"zeros":     {func(t *testing.T, path string) { os.WriteFile(path, make([]byte, 8192), 0o600) }, Damaged},
		"foreign": {func(t *testing.T, path string) {
			db, _ := sql.Open("sqlite", path)
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE bookmarks (a)"); err != nil {
				t.Fatal(err)
			}
		}, Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			c.make(t, path)
			before, _ := os.ReadFile(path)
			_, err := Open(t.Context(), path)
			var bad *FileError
			if !errors.As(err, &bad) || bad.Kind != c.kind || bad.Path != path || !strings.Contains(err.Error(), "doctor --fix") {
				t.Fatalf("open: %v", err)
			}
			r, err := Repair(t.Context(), path)
			if err != nil || !strings.HasPrefix(r.Aside, path+".damaged-") {
				t.Fatalf("repair: %+v, %v", r, err)
			}
			if after, _ := os.ReadFile(r.Aside); c.kind != Foreign && string(after) != string(before) {
				t.Error("the old file was changed")
			}
			mustApply(t, mustOpen(t, path), put("a", "1"))
			left, _ := filepath.Glob(path + ".repair-*")
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	dir := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(dir, "none", "state.db")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none") {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("a directory is opened")
	}
	path := fill(t, 50)
	if r, err := Repair(t.Context(), path); err != nil || r.Aside != "" {
		t.Errorf("repair of a good file: %+v, %v", r, err)
	}
}

// One bad page costs little, and the counters go on.
func TestSalvage(t *testing.T) {
	path := fill(t, 2000)
	s := mustOpen(t, path)
	before, rev, _ := s.Snapshot(t.Context(), "")
	// The counter of the sequence is lost, too; the records tell where it was.
	if err := s.writer.conn.exec("UPDATE sequence SET last = 1"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := f.Stat()
	f.WriteAt([]byte(strings.Repeat("garbage!", 512)), info.Size()/2/4096*4096)
	f.Close()

	_, err = Open(t.Context(), path)
	var bad *FileError
	if !errors.As(err, &bad) || bad.Kind != Damaged {
		t.Fatalf("open: %v", err)
	}
	r, err := Repair(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Salvaged < len(before)/2 || r.Salvaged == len(before) || r.Lost == nil {
		t.Errorf("%d of %d salvaged; %v", r.Salvaged, len(before), r.Lost)
	}
	t.Logf("%d of %d records salvaged", r.Salvaged, len(before))
	s = mustOpen(t, path)
	after, now, err := s.Snapshot(t.Context(), "")
	if err != nil || len(after) != r.Salvaged || now <= rev {
		t.Errorf("%d records at revision %d, was %d; %v", len(after), now, rev, err)
	}
	was := map[string]store.Record{}
	for _, rec := range before {
		was[rec.Key] = rec
	}
	for _, rec := range after {
		if b := was[rec.Key]; string(b.Value) != string(rec.Value) || b.Rev != rec.Rev {
			t.Fatalf("%s is not what it was", rec.Key)
		}
	}
	mustApply(t, s, add("log", "next"))
	log, _, _ := s.Snapshot(t.Context(), "log")
	if seq, _ := store.ParseSequenceKey("log", log[len(log)-1].Key); seq <= 2000 {
		t.Errorf("number %d after 2000", seq)
	}
	if l, err := s.Acquire(t.Context(), "l", time.Minute); err != nil || l.Fence().Epoch == 0 {
		t.Errorf("acquire: %v", err)
	}
}

// A file without a row that each store has is damaged, and can be repaired.
func TestMissingRow(t *testing.T) {
	for _, table := range []string{"identity", "meta"} {
		path := fill(t, 5)
		db, err := sql.Open("sqlite", dsn(path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("DELETE FROM " + table); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		var bad *FileError
		if _, err := Open(t.Context(), path); !errors.As(err, &bad) || bad.Kind != Damaged {
			t.Errorf("open without %s: %v", table, err)
		}
		if r, err := Repair(t.Context(), path); err != nil || r.Salvaged == 0 {
			t.Errorf("repair without %s: %+v, %v", table, r, err)
		}
		mustOpen(t, path).Close()
	}
}

// Whatever happens to the bytes: an error that says so, or a store that works; never a panic.
func TestRandomDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	path := fill(t, 500)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]store.Record{}
	intact := mustOpen(t, path)
	all, _, _ := intact.Snapshot(t.Context(), "")
	intact.Close()
	for _, r := range all {
		written[r.Key] = r
	}
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	refused, lost := 0, 0
	for range rounds {
		bytes := append([]byte(nil), good...)
		switch random.IntN(3) {
		case 0:
			bytes = bytes[:random.IntN(len(bytes))]
		case 1:
			for range 1 + random.IntN(20) {
				bytes[random.IntN(len(bytes))] ^= byte(1 << random.IntN(8))
			}
		default:
			begin := random.IntN(len(bytes))
			for i := begin; i < min(len(bytes), begin+random.IntN(5000)); i++ {
				bytes[i] = byte(random.Uint32())
			}
		}
		path := filepath.Join(t.TempDir(), "state.db")
		if err := os.WriteFile(path, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path)
		var bad *FileError
		switch {
		case err == nil:
			records, _, err := s.Snapshot(t.Context(), "")
			if err != nil && !errors.As(err, &bad) {
				t.Errorf("snapshot: %v", err)
			}
			for _, r := range records {
				if was, ok := written[r.Key]; !ok || string(was.Value) != string(r.Value) || was.Rev != r.Rev {
					t.Errorf("%s is read, and is not what was written", r.Key)
				}
			}
			s.Close()
			continue
		case !errors.As(err, &bad):
			t.Errorf("open: %v", err)
		}
		refused++
		r, err := Repair(t.Context(), path)
		if err != nil {
			t.Errorf("repair: %v", err)
			continue
		}
		if r.Salvaged < 1000 {
			lost++
		}
		s = mustOpen(t, path)
		mustApply(t, s, put("a", "1"), add("log", "1"))
		s.Close()
	}
	t.Logf("%d of %d refused, %d of them with losses", refused, rounds, lost)
	if refused == 0 {
		t.Error("no damage was found")
	}
}
