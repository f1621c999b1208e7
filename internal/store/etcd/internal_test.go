package etcd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

func start(t *testing.T, c *etcdtest.Cluster) *Store {
	t.Helper()
	l, err := ParseLocation(c.URL("coppice"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// do makes one change past the store.
func do(t *testing.T, s *Store, op rpc.Op) {
	t.Helper()
	if _, err := s.conn.client.Txn(t.Context(), rpc.Txn{Then: []rpc.Op{op}}); err != nil {
		t.Fatal(err)
	}
}

// A write that got no answer was done, or never will be.
func TestSettle(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1})), t.Context()
	a := &apply{s: s, ops: []store.Op{{Kind: store.Put, Key: "a", Value: []byte("1")}}, changes: true}

	w, err := s.writers.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.conn.client.Txn(ctx, a.txn(w))
	if err != nil || !resp.Succeeded {
		t.Fatal(resp, err)
	}
	for range 2 { // the question itself may have to be repeated
		if rev, done, err := s.writers.settle(ctx, w); err != nil || !done || int64(rev) != resp.Revision {
			t.Errorf("a write that was done: %d, %v, %v", rev, done, err)
		}
	}
	w.last++

	late := a.txn(w)
	for range 2 {
		if _, done, err := s.writers.settle(ctx, w); err != nil || done {
			t.Errorf("a write that was not done: %v, %v", done, err)
		}
	}
	// It comes late.
	if resp, err := s.conn.client.Txn(ctx, late); err != nil || resp.Succeeded {
		t.Errorf("a write that is said not to be done is done later: %v, %v", resp, err)
	}
	s.writers.put(nil)

	// A caller that has gone gets no more than resignTime.
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if w, err = s.writers.take(ctx); err != nil {
		t.Fatal(err)
	}
	if _, done, err := s.writers.settle(gone, w); err != nil || done {
		t.Errorf("for a caller that has gone: %v, %v", done, err)
	}
	s.writers.put(nil)
	if len(s.writers.slots) != 0 {
		t.Errorf("%d writers are in use", len(s.writers.slots))
	}
}

// Writers that etcd has removed, and sequences that others have moved on, are no reason to fail.
func TestMoved(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	s, other, ctx := start(t, c), start(t, c), t.Context()
	add := []store.Op{{Kind: store.Append, Key: "log", Value: []byte("x")}}
	for i := range 6 {
		by := s
		if i%2 == 1 {
			by = other
		}
		if _, err := by.Apply(ctx, store.Fence{}, nil, add); err != nil {
			t.Fatal(err)
		}
		do(t, s, rpc.Delete{Key: s.conn.prefix + "w/", End: s.conn.prefix + "w0"})
	}
	records, _, err := s.Snapshot(ctx, "log")
	if err != nil || len(records) != 6 || records[5].Key != store.SequenceKey("log", 6) {
		t.Errorf("%v, %v", records, err)
	}
	do(t, s, rpc.Put{Key: s.conn.sequenceKey("log"), Value: []byte("many")})
	if _, err := s.Apply(ctx, store.Fence{}, nil, add); err == nil || !strings.Contains(err.Error(), `coppice/n/log is damaged: "many" is no number`) {
		t.Errorf("with a damaged sequence: %v", err)
	}
}

// The history is compacted up to where it was one interval ago, by whichever process comes first.
func TestCompaction(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	s, other, ctx := start(t, c), start(t, c), t.Context()
	write := func() store.Rev {
		t.Helper()
		rev, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: "a", Value: []byte("x")}})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	watch := func(from store.Rev) error {
		for _, err := range s.Watch(ctx, "", from) {
			return err
		}
		return nil
	}
	first := write()
	var last, noted, otherLast, otherNoted int64
	step := func(s *Store, last, noted *int64) {
		t.Helper()
		var err error
		if *last, *noted, err = s.compactOnce(*last, *noted); err != nil {
			t.Fatal(err)
		}
	}
	step(s, &last, &noted)               // notes
	step(other, &otherLast, &otherNoted) // learns that
	second := write()
	if err := watch(first - 2); err != nil {
		t.Errorf("after the first interval: %v", err)
	}
	step(other, &otherLast, &otherNoted) // compacts, as it comes first this time
	step(s, &last, &noted)               // learns that
	if err := watch(first - 2); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before what was compacted: %v", err)
	}
	if err := watch(second - 1); err != nil {
		t.Errorf("watch from after that: %v", err)
	}
	if otherNoted < int64(second) || noted != otherNoted {
		t.Errorf("noted %d and %d after revision %d", noted, otherNoted, second)
	}
	// Somebody else has compacted further.
	if err := s.conn.client.Compact(ctx, int64(write())); err != nil {
		t.Fatal(err)
	}
	step(s, &last, &noted)
}

// A watch without changes goes on from where the store is, not from its last change.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1}))
	s.progress = 10 * time.Millisecond
	after, err := s.conn.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rev, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: "elsewhere"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &backlog{more: make(chan struct{}, 1)}
	for try := 1; after < int64(rev); try++ {
		if try == 20 {
			t.Fatalf("the watch is at %d, the store at %d", after, rev)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := s.followOnce(ctx, "here", &after, b, new(refusals)); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if changes, err := b.take(); len(changes) > 0 || err != nil {
		t.Errorf("%v, %v", changes, err)
	}
}

// What a process has left that was killed in the middle of an import is removed, but not while it works.
func TestKilledImport(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	s, ctx := start(t, c), t.Context()
	entries := func(yield func(store.Entry, error) bool) {
		yield(store.Entry{Kind: store.SequenceEntry, Key: "log", Number: 3}, nil)
		yield(store.Entry{Kind: store.RecordEntry, Key: "a", Value: []byte("1")}, nil)
	}
	i := &importation{conn: s.conn, name: "killed"}
	lease, err := i.begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{s.conn.key("a"), s.conn.sequenceKey("log")} {
		if err := errors.Join(i.put(ctx, key, []byte("1")), i.flush(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := ParseLocation(c.URL("coppice"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, l, s.logger); err == nil || !strings.Contains(err.Error(), "try again after 30s") {
		t.Errorf("opened in the middle of an import: %v", err)
	}
	if err := s.Import(ctx, entries); err == nil {
		t.Error("a second import has begun")
	}
	if err := s.conn.client.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	other := start(t, c)
	for e, err := range other.Export(ctx) {
		t.Errorf("left: %v, %v", e, err)
	}
	// It goes on after all.
	if err := errors.Join(i.put(ctx, s.conn.key("late"), []byte("1")), i.flush(ctx)); !errors.Is(err, errGivenUp) {
		t.Errorf("an import that was given up goes on: %v", err)
	}
	if err := i.finish(ctx, 7); !errors.Is(err, errGivenUp) {
		t.Errorf("an import that was given up ends: %v", err)
	}
	if err := other.Import(ctx, entries); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Get(ctx, s, "a"); err != nil || string(r.Value) != "1" {
		t.Errorf("%v, %v", r, err)
	}
}

// Records that do not fit into one answer of etcd are read in smaller pages.
func TestLargeRecords(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1})), t.Context()
	const n = 18
	for i := range n {
		value := bytes.Repeat([]byte{byte(i)}, store.MaxValue)
		op := store.Op{Kind: store.Append, Key: "log", Value: value}
		if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.conn.client.Get(ctx, rpc.Get{Key: s.conn.key("log/"), End: s.conn.key("log0")}); !errors.Is(err, rpc.ErrTooLarge) {
		t.Errorf("all at once: %v", err)
	}
	records, _, err := s.Snapshot(ctx, "log")
	if err != nil || len(records) != n {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i, r := range records {
		if len(r.Value) != store.MaxValue || r.Value[0] != byte(i) {
			t.Errorf("record %d has %d bytes of %d", i, len(r.Value), r.Value[0])
		}
	}
}

// A lease that somebody else takes away is lost with the next renewal; its fence is refused at once.
func TestRevoked(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, etcdtest.Start(t, etcdtest.Options{Members: 1})), t.Context()
	for name, take := range map[string]func(*lease) error{
		"revoked": func(l *lease) error { return s.conn.client.Revoke(ctx, l.id) },
		"record deleted": func(l *lease) error {
			do(t, s, rpc.Delete{Key: s.conn.leaseKey(l.name)})
			return nil
		},
		"record of another": func(l *lease) error {
			do(t, s, rpc.Delete{Key: s.conn.leaseKey(l.name)})
			id, err := s.conn.client.Grant(ctx, 60)
			if err == nil {
				_, err = s.leases.claim(ctx, l.name, id, counter{})
			}
			return err
		},
	} {
		l, err := s.Acquire(ctx, name, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := take(l.(*lease)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(ctx, l.Fence(), nil, nil); !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: apply: %v", name, err)
		}
		if err := l.Renew(ctx); !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: renew: %v", name, err)
		}
		<-l.Done()
	}
}

// A watch that is refused again and again is logged once, until it has worked.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := refusals{
		conn:   newConn(keys{prefix: "p/"}, "etcd://a/p", "user a"),
		logger: slog.New(slog.NewTextHandler(&log, nil)), keys: "p/k/",
	}
	for _, err := range []error{rpc.ErrLeaderChanged, context.Canceled, rpc.ErrNoPermission, rpc.ErrNoPermission,
		rpc.ErrAuthFailed} {
		r.note(err)
	}
	r.told = false
	r.note(rpc.ErrNoPermission)
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines: %s", n, &log)
	}
}
