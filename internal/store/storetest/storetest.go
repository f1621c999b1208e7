// Package storetest tests stores. It has the suite that every implementation must pass, and a
// store that fails in all the ways that the interface allows, to test callers with.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Backend is an implementation under test.
type Backend struct {
	// Open opens the store kept in dir, an empty directory at first.
	Open func(dir string) (store.Store, error)
	// Durable means that acknowledged changes survive Close and Open.
	Durable bool
	// TTL is that of leases in tests: long enough to renew them within half of it. 2 s if zero.
	TTL time.Duration
	// Lasting means that leases outlive the process that holds them.
	Lasting bool
	// Shared means that others move the revision of the store on, too.
	Shared bool
	// Bubble means that the store can run inside a testing/synctest bubble, because it waits only
	// for channels and timers.
	Bubble bool
}

// Run runs the whole suite.
func Run(t *testing.T, b Backend) {
	if b.TTL == 0 {
		b.TTL = 2 * time.Second
	}
	t.Run("apply", func(t *testing.T) { testApply(t, b) })
	t.Run("bounds", func(t *testing.T) { testBounds(t, b) })
	t.Run("prefix", func(t *testing.T) { testPrefix(t, b) })
	t.Run("scan", func(t *testing.T) { testScan(t, b) })
	t.Run("model", func(t *testing.T) { testModel(t, b) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, b) })
	t.Run("watch", func(t *testing.T) { testWatch(t, b) })
	t.Run("fence", func(t *testing.T) { t.Parallel(); testFence(t, b) })
	t.Run("lease", func(t *testing.T) { t.Parallel(); testLease(t, b) })
	t.Run("resume", func(t *testing.T) { t.Parallel(); testResume(t, b) })
	t.Run("copy", func(t *testing.T) { testCopy(t, b) })
	t.Run("writes", func(t *testing.T) { testWrites(t, b) })
	t.Run("close", func(t *testing.T) { testClose(t, b) })
	if b.Durable {
		t.Run("reopen", func(t *testing.T) { testReopen(t, b) })
	}
}

// open opens an empty store that is closed at the end of the test.
func (b Backend) open(t testing.TB) store.Store {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "store")
	if err != nil {
		t.Fatal(err)
	}
	return b.openDir(t, dir)
}

func (b Backend) openDir(t testing.TB, dir string) store.Store {
	t.Helper()
	s, err := b.Open(dir)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(key, value string) store.Op {
	return store.Op{Kind: store.Put, Key: key, Value: []byte(value)}
}
func del(key string) store.Op { return store.Op{Kind: store.Delete, Key: key} }
func add(prefix, value string) store.Op {
	return store.Op{Kind: store.Append, Key: prefix, Value: []byte(value)}
}

// must applies ops and fails the test on an error.
func must(t testing.TB, s store.Store, ops ...store.Op) store.Rev {
	t.Helper()
	rev, err := s.Apply(context.Background(), store.Fence{}, nil, ops)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return rev
}

// get reads one record; the zero Record if there is none.
func get(t testing.TB, s store.Store, key string) store.Record {
	t.Helper()
	for _, r := range all(t, s, key) {
		if r.Key == key {
			return r
		}
	}
	return store.Record{}
}

func all(t testing.TB, s store.Store, prefix string) []store.Record {
	t.Helper()
	records, _, err := s.Snapshot(context.Background(), prefix)
	if err != nil {
		t.Fatalf("snapshot of %q: %v", prefix, err)
	}
	return records
}

// text returns a list of records on one line, without revisions.
func text(records []store.Record) string {
	var b bytes.Buffer
	for i, r := range records {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", r.Key, r.Value)
	}
	return b.String()
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}
