package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ignore(Progress) {}

// full is a store that can be copied.
type full interface {
	store.Store
	Target
}

func newSQLite(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fill writes records, appends and an epoch.
func fill(t *testing.T, s store.Store, n int) {
	t.Helper()
	var ops []store.Op
	for i := range n {
		ops = append(ops, store.Op{Kind: store.Append, Key: "log", Value: fmt.Append(nil, "event ", i)},
			store.Op{Kind: store.Put, Key: fmt.Sprint("task/", i), Value: fmt.Append(nil, "task ", i)})
	}
	parts := slices.Collect(slices.Chunk(ops, store.MaxOps))
	parts = append(parts, []store.Op{{Kind: store.Append, Key: "gone"}},
		[]store.Op{{Kind: store.Delete, Key: store.SequenceKey("gone", 1)}})
	for _, part := range parts {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acquire(t.Context(), "ctl", time.Minute); err != nil {
		t.Fatal(err)
	}
}

// content returns what a store exports, without the epoch.
func content(t *testing.T, s store.Exporter) string {
	t.Helper()
	var b strings.Builder
	for e, err := range s.Export(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != store.EpochEntry {
			fmt.Fprintf(&b, "%v %d %s\n", e, e.Number, e.Value)
		}
	}
	return b.String()
}

// A copy may go back and forth between kinds of stores.
func TestCopy(t *testing.T) {
	stores := []full{newSQLite(t), memory.New(), newSQLite(t), newSQLite(t), memory.New()}
	fill(t, stores[0], 1000)
	want := content(t, stores[0])
	var first Report
	for i, to := range stores[1:] {
		var seen []Progress
		r, err := Copy(t.Context(), stores[i], to, func(p Progress) { seen = append(seen, p) })
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = r
		}
		if r.Records != 2000 || r.Sequences != 2 || r.Epoch != 1 || r.SHA256 != first.SHA256 || len(r.SHA256) != 64 ||
			r.Bytes != first.Bytes || r.Bytes < 2000*16 || r.Damaged == nil || len(r.Damaged) > 0 {
			t.Errorf("%+v", r)
		}
		if got := content(t, to); got != want {
			t.Errorf("copy %d differs", i)
		}
		stages := map[Stage]int{}
		for n, p := range seen {
			stages[p.Stage] = p.Records
			if n > 0 && (p.Stage < seen[n-1].Stage || p.Stage == seen[n-1].Stage && p.Records < seen[n-1].Records) {
				t.Errorf("%+v after %+v", p, seen[n-1])
			}
		}
		if len(seen) < 20 || len(stages) != 3 || stages[Copying] != 2000 || stages[RereadingOriginal] != 2000 ||
			stages[ReadingCopy] != 2000 {
			t.Errorf("%d reports of progress, the last of the stages %v", len(seen), stages)
		}
	}
	// An empty store has an empty copy, and only an empty store is a target.
	if r, err := Copy(t.Context(), memory.New(), newSQLite(t), ignore); err != nil || r.Records+r.Sequences > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Copy(t.Context(), stores[0], stores[1], ignore); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("copy into a store that is not empty: %v", err)
	}
}

// altered is a store that does not keep or give what it should.
type altered struct {
	full
	change func(e store.Entry) (store.Entry, bool)
	from   int // the first export that is altered
	n      int
}

func (a *altered) Export(ctx context.Context) iter.Seq2[store.Entry, error] {
	a.n++
	return func(yield func(store.Entry, error) bool) {
		for e, err := range a.full.Export(ctx) {
			if a.n >= a.from {
				var keep bool
				if e, keep = a.change(e); !keep {
					continue
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A difference is an error that says in what they differ.
func TestCopyDiffers(t *testing.T) {
	const key = "task/7"
	for name, c := range map[string]struct {
		says   string
		change func(e store.Entry) (store.Entry, bool)
	}{
		"record left out": {"19 records, expected 20", func(e store.Entry) (store.Entry, bool) { return e, e.Key != key }},
		"shorter value": {"bytes of keys and values, expected", func(e store.Entry) (store.Entry, bool) {
			e.Value = e.Value[:len(e.Value)/2]
			return e, true
		}},
		"other value": {"checksum", func(e store.Entry) (store.Entry, bool) {
			if e.Key == key {
				e.Value = []byte("task ?")
			}
			return e, true
		}},
		"other key": {"checksum", func(e store.Entry) (store.Entry, bool) {
			if e.Key == key {
				e.Key = "task/?"
			}
			return e, true
		}},
		"value at the wrong key": {"checksum", func(e store.Entry) (store.Entry, bool) {
			if e.Key == key {
				e.Key, e.Value = key+"t", e.Value[1:]
			}
			return e, true
		}},
		"sequence left out": {"1 sequences, expected 2", func(e store.Entry) (store.Entry, bool) { return e, e.Key != "gone" }},
		"other sequence": {"checksum", func(e store.Entry) (store.Entry, bool) {
			if e.Key == "gone" {
				e.Number = 2
			}
			return e, true
		}},
		"epoch left out": {"epoch 0, expected at least 1",
			func(e store.Entry) (store.Entry, bool) { return e, e.Kind != store.EpochEntry }},
	} {
		from := memory.New()
		fill(t, from, 10)
		_, err := Copy(t.Context(), from, &altered{full: memory.New(), change: c.change, from: 1}, ignore)
		if !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of the copy: %v, expected %q", name, err, c.says)
		}
		if name == "epoch left out" {
			continue // a greater one is no difference
		}
		_, err = Copy(t.Context(), &altered{full: from, change: c.change, from: 2}, memory.New(), ignore)
		if !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "the original has changed") {
			t.Errorf("%s of the original: %v", name, err)
		}
	}
	from := memory.New()
	fill(t, from, 10)
	greater := func(e store.Entry) (store.Entry, bool) {
		if e.Kind == store.EpochEntry {
			e.Number++
		}
		return e, true
	}
	if _, err := Copy(t.Context(), from, &altered{full: memory.New(), change: greater, from: 1}, ignore); err != nil {
		t.Errorf("greater epoch: %v", err)
	}
}

// Whatever fails, the target is empty or a whole copy; and a copy that succeeds is whole.
func TestCopyFaults(t *testing.T) {
	from := newSQLite(t)
	fill(t, from, 20)
	want := content(t, from)
	var counts [3]int // of copies that were good, cut, and of unknown outcome
	for seed := range uint64(300) {
		source := storetest.NewFaults(from, seed, storetest.Rates{Cut: 0.01})
		inner := full(memory.New())
		if seed%10 == 0 {
			inner = newSQLite(t)
		}
		target := storetest.NewFaults(inner, seed, storetest.Rates{Cut: 0.002, Unknown: 0.5})
		_, err := Copy(t.Context(), source, target, ignore)
		got := content(t, inner)
		switch {
		case got != want && got != "":
			t.Fatalf("seed %d: a part of a copy, after %v", seed, err)
		case err == nil && got == want:
			counts[0]++
		case errors.Is(err, storetest.ErrCut):
			counts[1]++
		case errors.Is(err, store.ErrUnknown) && got == "":
			counts[2]++
		default:
			t.Fatalf("seed %d: %d bytes, %v", seed, len(got), err)
		}
		if got == "" { // it can be tried again
			if _, err := Copy(t.Context(), from, inner, ignore); err != nil {
				t.Fatalf("seed %d: copy after %v: %v", seed, err, err)
			}
		}
	}
	t.Logf("%d good, %d cut, %d unknown", counts[0], counts[1], counts[2])
	if slices.Min(counts[:]) < 20 {
		t.Errorf("%v copies were good, cut and unknown", counts)
	}
	failing := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
	failing.Fail(store.ErrFull)
	if _, err := Copy(t.Context(), from, failing, ignore); !errors.Is(err, store.ErrFull) {
		t.Errorf("copy to a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Copy(ctx, from, memory.New(), ignore); !errors.Is(err, context.Canceled) {
		t.Errorf("copy with an ended context: %v", err)
	}
}
