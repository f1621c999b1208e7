package storetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// copyable is a store that can be copied. Every store can.
type copyable interface {
	store.Store
	store.Exporter
	store.Importer
}

func (b Backend) openCopyable(t testing.TB) copyable {
	t.Helper()
	s, ok := b.open(t).(copyable)
	if !ok {
		t.Fatal("the store is no store.Exporter and store.Importer")
	}
	return s
}

// exported returns what a store exports.
func exported(t testing.TB, s store.Exporter) (all []store.Entry) {
	t.Helper()
	for e, err := range s.Export(context.Background()) {
		if err != nil {
			t.Fatalf("export: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// entriesText returns entries on one line.
func entriesText(entries []store.Entry) string {
	var all []string
	for _, e := range entries {
		switch e.Kind {
		case store.SequenceEntry:
			all = append(all, fmt.Sprintf("%s:%d", e.Key, e.Number))
		case store.EpochEntry:
			all = append(all, fmt.Sprintf("epoch:%d", e.Number))
		default:
			all = append(all, fmt.Sprintf("%s=%s", e.Key, e.Value))
		}
	}
	return strings.Join(all, " ")
}

func record(key, value string) store.Entry {
	return store.Entry{Kind: store.RecordEntry, Key: key, Value: []byte(value)}
}

func sequence(prefix string, last uint64) store.Entry {
	return store.Entry{Kind: store.SequenceEntry, Key: prefix, Number: last}
}

func epoch(last uint64) store.Entry { return store.Entry{Kind: store.EpochEntry, Number: last} }

// list yields entries and then err, unless that is nil.
func list(err error, entries ...store.Entry) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Entry{}, err)
		}
	}
}

func testCopy(t *testing.T, b Backend) {
	t.Run("round trip", func(t *testing.T) { testRoundTrip(t, b) })
	t.Run("export", func(t *testing.T) { testExport(t, b) })
	t.Run("export of one revision", func(t *testing.T) { testExportRevision(t, b) })
	t.Run("not empty", func(t *testing.T) { testNotEmpty(t, b) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, b) })
	t.Run("wrong entries", func(t *testing.T) { testWrongEntries(t, b) })
	t.Run("bounds of entries", func(t *testing.T) { testEntryBounds(t, b) })
	t.Run("watch", func(t *testing.T) { testImportWatched(t, b) })
	if b.Durable {
		t.Run("reopen", func(t *testing.T) { testReopenCopy(t, b) })
	}
}

// A copy has the same records, and goes on with the numbers and epochs.
func testRoundTrip(t *testing.T, b Backend) {
	ctx, from := context.Background(), b.openCopyable(t)
	must(t, from, put("a/b", "1"), put("a", "2"), put("a-b", "3"), put("empty", ""), put("ключ/é ü", "\x00\xff"))
	for i := range 3 {
		must(t, from, add("log", fmt.Sprint(i)), add("log/x", fmt.Sprint(i)))
	}
	must(t, from, del(store.SequenceKey("log", 3)), put("log/marker", "m"))
	must(t, from, add("gone", "1"))
	must(t, from, del(store.SequenceKey("gone", 1)))
	for range 2 {
		if err := acquire(t, from, "ctl", time.Minute).Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	held := acquire(t, from, "ctl", time.Minute)
	last := held.Fence().Epoch

	to := b.openCopyable(t)
	if err := to.Import(ctx, from.Export(ctx)); err != nil {
		t.Fatal(err)
	}
	if got, want := text(all(t, to, "")), text(all(t, from, "")); got != want {
		t.Errorf("records:\n got %s\nwant %s", got, want)
	}
	if got, want := withoutEpoch(exported(t, to)), withoutEpoch(exported(t, from)); got != want {
		t.Errorf("entries:\n got %s\nwant %s", got, want)
	}
	copied, rev, err := to.Snapshot(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range copied {
		if r.Rev == 0 || r.Rev > rev {
			t.Errorf("%s has revision %d, the store %d", r.Key, r.Rev, rev)
		}
	}

	// The lease itself is not copied, and its epoch is not used again.
	wantErr(t, "fence of a lease of the original", second(to.Apply(ctx, held.Fence(), nil, nil)), store.ErrFenced)
	if got := acquire(t, to, "ctl", time.Minute).Fence().Epoch; got <= last {
		t.Errorf("epoch %d, the original was at %d", got, last)
	}
	must(t, to, add("log", "next"), add("gone", "next"), add("log/x", "next"), add("new", "first"))
	for prefix, want := range map[string]uint64{"log": 3, "gone": 1, "log/x": 3, "new": 0} {
		n := uint64(0)
		for _, r := range all(t, to, prefix) {
			if seq, ok := store.ParseSequenceKey(prefix, r.Key); ok {
				n = max(n, seq)
			}
		}
		if n <= want {
			t.Errorf("%s goes on with %d, the original was at %d", prefix, n, want)
		}
	}
	// The copy is a store like any other.
	cond := store.Cond{Key: "a", Rev: get(t, to, "a").Rev}
	_, err = to.Apply(ctx, store.Fence{}, []store.Cond{cond}, []store.Op{put("a", "new"), del("a/b")})
	if err != nil {
		t.Errorf("conditional put: %v", err)
	}
	if got := text(all(t, from, "a")); got != "a=2 a/b=1" {
		t.Errorf("the original has %s", got)
	}
}

func second[T any](_ T, err error) error { return err }

// withoutEpoch returns entries on one line; the epoch of a copy may be greater.
func withoutEpoch(entries []store.Entry) string {
	return entriesText(slices.DeleteFunc(entries, func(e store.Entry) bool { return e.Kind == store.EpochEntry }))
}

func testExport(t *testing.T, b Backend) {
	ctx, s := context.Background(), b.openCopyable(t)
	if got := entriesText(exported(t, s)); got != "" {
		t.Errorf("an empty store exports %s", got)
	}
	// Without entries, nothing changes.
	if err := s.Import(ctx, s.Export(ctx)); err != nil {
		t.Errorf("import of nothing: %v", err)
	}
	must(t, s, add("b", "1"), add("a", "1"), add("a", "2"), put("x/1", "v"), put("b-c", "v"))
	// Records that were put where appended ones are count, too.
	must(t, s, put(store.SequenceKey("b", 70), "put"), put(store.SequenceKey("b/70", 90), "v"), put("b/9", "v"),
		put(store.SequenceKey("c", 5), "v"))
	want := "a:2 b:70 " +
		"a/00000000000000000001=1 a/00000000000000000002=2 b-c=v b/00000000000000000001=1 " +
		"b/00000000000000000070=put b/70/00000000000000000090=v b/9=v c/00000000000000000005=v x/1=v"
	if got := entriesText(exported(t, s)); got != want {
		t.Errorf("export:\n got %s\nwant %s", got, want)
	}
	for e, err := range store.CheckEntries(ctx, s.Export(ctx)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == store.RecordEntry {
			break // the rest is not wanted
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	n, err := 0, error(nil)
	for _, err = range s.Export(canceled) {
		if n++; n == 3 {
			cancel()
		}
	}
	cancel()
	wantErr(t, "export with a context that ended", err, context.Canceled)
	for _, err = range s.Export(canceled) {
	}
	wantErr(t, "export with an ended context", err, context.Canceled)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err = range s.Export(ctx) {
	}
	wantErr(t, "export of a closed store", err, store.ErrClosed)
	wantErr(t, "import into a closed store", s.Import(ctx, list(nil)), store.ErrClosed)
}

// What is written during an export is left out. Pages are read while the writer goes on.
func testExportRevision(t *testing.T, b Backend) {
	s := b.openCopyable(t)
	big := strings.Repeat("v", store.MaxValue/4)
	for i := range 40 { // more than two pages
		must(t, s, put(fmt.Sprintf("big/%02d", i), big+"old"), add("log", "old"))
	}
	before := entriesText(exported(t, s))
	var got []store.Entry
	for e, err := range s.Export(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
		n := len(got) % 40
		must(t, s, put(fmt.Sprintf("big/%02d", n), "new"), put("a", "new"), put("z", "new"), add("log", "new"))
		must(t, s, del(fmt.Sprintf("big/%02d", 39-n)), add("other", "new"))
	}
	if after := entriesText(got); after != before {
		t.Errorf("%d bytes of entries, want %d: the export mixes revisions", len(after), len(before))
	}
	if now := entriesText(exported(t, s)); now == before {
		t.Error("nothing was written meanwhile")
	}
}
