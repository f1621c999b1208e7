package sqlite

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// corrupt changes a record behind the store's back.
func corrupt(t *testing.T, s *Store, change, key string) {
	t.Helper()
	if _, err := s.writer.conn.ExecContext(t.Context(), "UPDATE record SET "+change+" WHERE key = ?", key); err != nil {
		t.Fatal(err)
	}
}

// A record that is not what was written costs only itself, is named, and can be removed.
func TestChecksum(t *testing.T) {
	for name, change := range map[string]string{
		"value":    "value = CAST(x'01' || substr(value, 2) AS BLOB)",
		"revision": "rev = rev + 1",
		"key":      "key = key || '0'",
		"sum":      "sum = sum + 1",
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, fill(t, 100))
			id := s.ID()
			const key = "rec/00007"
			bad := key
			if name == "key" {
				bad += "0"
			}
			corrupt(t, s, change, key)
			if d := s.Damaged(); len(d) > 0 {
				t.Errorf("damaged before it was read: %v", d)
			}
			all, _, err := s.Snapshot(t.Context(), "")
			if err != nil || len(all) != 199 {
				t.Fatalf("%d records, %v", len(all), err)
			}
			for _, r := range all {
				if strings.HasPrefix(r.Key, key) {
					t.Errorf("%+v", r)
				}
			}
			if d := s.Damaged(); len(d) != 1 || d[0] != bad {
				t.Errorf("damaged: %v", d)
			}
			if exact, _, err := s.Scan(t.Context(), bad, "", 1); len(exact) > 0 || err != nil {
				t.Errorf("%v, %v", exact, err)
			}
			// A page is not empty before the end.
			n := 0
			for after := ""; ; n++ {
				page, _, err := s.Scan(t.Context(), "rec", after, 1)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				after = page[0].Key
			}
			if n != 99 {
				t.Errorf("%d records by pages of one", n)
			}
			var file *FileError
			if err := s.Verify(t.Context()); !errors.As(err, &file) || file.Kind != Damaged || !strings.Contains(err.Error(), bad) {
				t.Errorf("verify: %v", err)
			}
			s.Close()
			r, err := Repair(t.Context(), s.Path())
			if err != nil || r.Salvaged != 199 || r.Aside == "" || !strings.Contains(r.Problem, bad) {
				t.Fatalf("repair: %+v, %v", r, err)
			}
			s = mustOpen(t, s.Path())
			if err := s.Verify(t.Context()); err != nil || s.ID() == id {
				t.Errorf("verify: %v; the id is %s", err, s.ID())
			}
		})
	}
}

// Where a record was damaged a new one can be written, as if it were not there.
func TestReplaceDamaged(t *testing.T) {
	s := mustOpen(t, fill(t, 50))
	const key = "rec/00007"
	corrupt(t, s, "value = x'01'", key)
	create := []store.Cond{{Key: key}}
	if _, err := s.Apply(t.Context(), store.Fence{}, create, []store.Op{put(key, "new")}); err != nil {
		t.Fatal(err)
	}
	records, _, err := s.Snapshot(t.Context(), key)
	if err != nil || len(records) != 1 || string(records[0].Value) != "new" {
		t.Errorf("%+v, %v", records, err)
	}
	if _, err := s.Apply(t.Context(), store.Fence{}, create, []store.Op{put(key, "newer")}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second time: %v", err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkVerify tells what a full check costs.
func BenchmarkVerify(b *testing.B) {
	s := mustOpen(b, fill(b, 50_000))
	for b.Loop() {
		if err := s.Verify(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/record")
}
