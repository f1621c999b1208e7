package sqlite

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

const (
	benchWriters = 64
	benchSpan    = 400 * time.Millisecond
)

// BenchmarkDurableWrites compares, in the same run and in turns, the durable
// writes of 512 bytes a second of 64 writers through the store with
//
//   - plain: the same writes to plain SQLite, with the same settings and a
//     prepared statement, one transaction and so one fsync each,
//   - file: a write of as many bytes at the end of a file, and an fsync: what the disk can do.
//
// The writes are: state, each writer overwrites the one record of its own
// agent; append, all append to one log; spread, each overwrites one of 100 records
// of its own at random, so that hardly any two share a page.
//
// Run it with -benchtime=9x: one iteration is one turn of each, ratios are the
// median, least and greatest of the turns.
func BenchmarkDurableWrites(b *testing.B) {
	b.Run("state", func(b *testing.B) { benchWrites(b, store.Put, 1) })
	b.Run("append", func(b *testing.B) { benchWrites(b, store.Append, 1) })
	b.Run("spread", func(b *testing.B) { benchWrites(b, store.Put, 100) })
}

func benchWrites(b *testing.B, kind store.OpKind, keys int) {
	var ours, plain, file []float64
	writeStore := openBenchStore(b, kind)
	writePlain := openBenchPlain(b, kind)
	writeFile := openBenchFile(b)
	for b.Loop() {
		plain = append(plain, benchTurn(b, keys, writePlain))
		ours = append(ours, benchTurn(b, keys, writeStore))
		file = append(file, benchTurn(b, keys, writeFile))
	}
	ratio := make([]float64, len(ours))
	for i := range ours {
		ratio[i] = ours[i] / plain[i]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ours), "store-writes/s")
	b.ReportMetric(median(plain), "plain-writes/s")
	b.ReportMetric(median(file), "file-writes/s")
	b.ReportMetric(median(ratio), "x-plain")
	b.ReportMetric(slices.Min(ratio), "x-plain-min")
	b.ReportMetric(slices.Max(ratio), "x-plain-max")
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// benchTurn returns the number of writes per second.
func benchTurn(b *testing.B, keys int, write func(key string, value []byte) error) float64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for w := range benchWriters {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			value := []byte(strings.Repeat("v", 512))
			for time.Since(begin) < benchSpan {
				key := fmt.Sprintf("agents/%02d/%04d", w, random.IntN(keys))
				if err := write(key, value); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds()
}

func openBenchStore(b *testing.B, kind store.OpKind) func(string, []byte) error {
	s := mustOpen(b, filepath.Join(b.TempDir(), "state.db"))
	return func(key string, value []byte) error {
		if kind == store.Append {
			key = "log"
		}
		_, err := apply(s, store.Op{Kind: kind, Key: key, Value: value})
		return err
	}
}

func openBenchPlain(b *testing.B, kind store.OpKind) func(string, []byte) error {
	db, err := sql.Open("sqlite", dsn(filepath.Join(b.TempDir(), "plain.db")))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1) // several would only wait for each other's lock
	for _, q := range []string{"PRAGMA journal_mode = wal", "CREATE TABLE record (key TEXT PRIMARY KEY, value BLOB NOT NULL, rev INTEGER NOT NULL) WITHOUT ROWID"} {
		if _, err := db.Exec(q); err != nil {
			b.Fatal(err)
		}
	}
	stmt, err := db.Prepare("INSERT OR REPLACE INTO record (key, value, rev) VALUES (?, ?, 1)")
	if err != nil {
		b.Fatal(err)
	}
	var last atomic.Uint64
	return func(key string, value []byte) error {
		if kind == store.Append {
			key = store.SequenceKey("log", last.Add(1))
		}
		_, err := stmt.Exec(key, value)
		return err
	}
}

func openBenchFile(b *testing.B) func(string, []byte) error {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	var mu sync.Mutex
	return func(key string, value []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.Write(value); err != nil {
			return err
		}
		return f.Sync()
	}
}
