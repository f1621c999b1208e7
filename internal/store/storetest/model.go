package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store"
)

// model is the simplest correct store.
type model struct {
	records   map[string]store.Record
	sequences map[string]uint64
	changes   []store.Change
	rev       store.Rev // of the last change
	kept      int       // changes[kept:] can be watched for certain
	epochs    map[string]uint64
	lastEpoch uint64
}

// expect returns the expected error of an apply, without performing it.
func (m *model) expect(f store.Fence, conds []store.Cond) error {
	if f != (store.Fence{}) && (f.Epoch == 0 || m.epochs[f.Lease] != f.Epoch) {
		return store.ErrFenced
	}
	for _, c := range conds {
		if m.records[c.Key].Rev != c.Rev {
			return store.ErrConflict
		}
	}
	return nil
}

func (m *model) apply(rev store.Rev, ops []store.Op) {
	c := store.Change{Rev: rev}
	for _, op := range ops {
		key := op.Key
		switch op.Kind {
		case store.Delete:
			if _, ok := m.records[key]; ok {
				delete(m.records, key)
				c.Deleted = append(c.Deleted, key)
			}
			continue
		case store.Append:
			m.sequences[key]++
			key = store.SequenceKey(key, m.sequences[key])
		}
		m.records[key] = store.Record{Key: key, Value: op.Value, Rev: rev}
		c.Put = append(c.Put, m.records[key])
	}
	if len(c.Put)+len(c.Deleted) > 0 {
		m.rev = rev
		m.changes = append(m.changes, c)
	}
}

// changed reports whether ops would change anything.
func (m *model) changed(ops []store.Op) bool {
	return slices.ContainsFunc(ops, func(op store.Op) bool {
		return op.Kind != store.Delete ||
			m.records[op.Key].Rev != 0
	})
}

// copied makes the model that of a copy, at its first revision, with the same records.
func (m *model) copied(records []store.Record, rev store.Rev) {
	for _, r := range records {
		m.records[r.Key] = r
	}
	clear(m.epochs)
	m.rev, m.changes, m.kept = rev, []store.Change{{Rev: rev}}, 1
}

func (m *model) snapshot(prefix string) []store.Record {
	var records []store.Record
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		if store.Under(prefix, key) {
			records = append(records, m.records[key])
		}
	}
	return records
}

// testModel compares random histories with the model. It assumes sequence numbers without gaps,
// which the interface does not promise. Relax this for a store that has gaps.
func testModel(t *testing.T, b Backend) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		dir, err := os.MkdirTemp(t.TempDir(), "store")
		if err != nil {
			rt.Fatal(err)
		}
		s, err := b.Open(dir)
		if err != nil {
			rt.Fatalf("open: %v", err)
		}
		defer func() { s.Close() }()

		m := &model{records: map[string]store.Record{}, sequences: map[string]uint64{}, epochs: map[string]uint64{}}
		leases := map[string]store.Lease{}
		fences := []store.Fence{{}, {Lease: "l1", Epoch: 1}}
		revs := []store.Rev{0} // that were seen, for conditions

		keys := rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "a/c", "a-b", "b", "log"})
		prefixes := rapid.SampledFrom([]string{"", "a", "a/b", "log", "nothing"})

		rt.Repeat(map[string]func(*rapid.T){
			"apply": func(rt *rapid.T) {
				fence := rapid.SampledFrom(fences).Draw(rt, "fence")
				var conds []store.Cond
				for range rapid.IntRange(0, 2).Draw(rt, "conds") {
					c := store.Cond{Key: keys.Draw(rt, "key")}
					c.Rev = m.records[c.Key].Rev
					if rapid.IntRange(0, 3).Draw(rt, "stale") == 0 {
						c.Rev = rapid.SampledFrom(revs).Draw(rt, "rev")
					}
					conds = append(conds, c)
				}
				var ops []store.Op
				for _, key := range rapid.SliceOfNDistinct(keys, 0, 4, rapid.ID).Draw(rt, "keys") {
					value := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "value")
					switch rapid.IntRange(0, 3).Draw(rt, "kind") {
					case 0:
						ops = append(ops, del(key))
					case 1:
						ops = append(ops, add("log/x", string(value)), add("log", string(value)))
					default:
						ops = append(ops, put(key, string(value)))
					}
				}
				want := m.expect(fence, conds)
				rev, err := s.Apply(ctx, fence, conds, ops)
				if !errors.Is(err, want) {
					rt.Fatalf("apply(%v, %v, %v): %v, want %v", fence, conds, ops, err, want)
				}
				if err != nil {
					return
				}
				if changed := m.changed(ops); rev < m.rev || changed && rev == m.rev ||
					!changed && rev > m.rev && !b.Shared {
					rt.Fatalf("apply(%v) has revision %d after %d", ops, rev, m.rev)
				}
				m.apply(rev, ops)
				revs = append(revs, rev)
			},
			"snapshot": func(rt *rapid.T) {
				prefix := prefixes.Draw(rt, "prefix")
				got, rev, err := s.Snapshot(ctx, prefix)
				if err != nil || rev < m.rev {
					rt.Fatalf("snapshot at %d: %v; the store is at %d", rev, err, m.rev)
				}
				compare(rt, got, m.snapshot(prefix))
			},
			"scan": func(rt *rapid.T) {
				prefix, after := prefixes.Draw(rt, "prefix"), keys.Draw(rt, "after")
				limit := rapid.IntRange(0, 5).Draw(rt, "limit")
				got, _, err := s.Scan(ctx, prefix, after, limit)
				if err != nil {
					rt.Fatalf("scan: %v", err)
				}
				want := slices.DeleteFunc(m.snapshot(prefix), func(r store.Record) bool { return r.Key <= after })
				if limit > 0 {
					want = want[:min(limit, len(want))]
				}
				compare(rt, got, want)
			},
			"watch": func(rt *rapid.T) {
				prefix := prefixes.Draw(rt, "prefix")
				i := rapid.IntRange(m.kept, len(m.changes)).Draw(rt, "from")
				from := store.Rev(0)
				if i > 0 {
					from = m.changes[i-1].Rev
				}
				var want []store.Change
				for _, c := range m.changes[i:] {
					if c, ok := below(c, prefix); ok {
						want = append(want, c)
					}
				}
				watch, cancel := context.WithCancel(ctx)
				defer cancel()
				n := 0
				if len(want) == 0 {
					return
				}
				for c, err := range s.Watch(watch, prefix, from) {
					if err != nil {
						rt.Fatalf("watch of %q from %d: %v", prefix, from, err)
					}
					if describe(c) != describe(want[n]) {
						rt.Fatalf("watch of %q from %d: change %d is %s, want %s", prefix, from, n, describe(c),
							describe(want[n]))
					}
					if n++; n == len(want) {
						return
					}
				}
			},
			"acquire": func(rt *rapid.T) {
				name := rapid.SampledFrom([]string{"l1", "l2"}).Draw(rt, "lease")
				l, err := s.Acquire(ctx, name, time.Hour)
				if _, held := leases[name]; held {
					if !errors.Is(err, store.ErrHeld) {
						rt.Fatalf("acquire of a held lease: %v", err)
					}
					return
				}
				if err != nil || l.Fence().Epoch <= m.lastEpoch {
					rt.Fatalf("acquire after epoch %d: %+v, %v", m.lastEpoch, l, err)
				}
				leases[name] = l
				m.lastEpoch = l.Fence().Epoch
				m.epochs[name] = m.lastEpoch
				fences = append(fences, l.Fence())
			},
			"release": func(rt *rapid.T) {
				name := rapid.SampledFrom([]string{"l1", "l2"}).Draw(rt, "lease")
				l, held := leases[name]
				if !held {
					rt.Skip("not held")
				}
				if err := l.Release(ctx); err != nil {
					rt.Fatalf("release: %v", err)
				}
				delete(leases, name)
				delete(m.epochs, name)
			},
			"reopen": func(rt *rapid.T) {
				if !b.Durable || rapid.IntRange(0, 3).Draw(rt, "reopen") > 0 {
					rt.Skip("not now")
				}
				if err := s.Close(); err != nil {
					rt.Fatalf("close: %v", err)
				}
				if s, err = b.Open(dir); err != nil {
					rt.Fatalf("reopen: %v", err)
				}
				clear(leases)
				clear(m.epochs)
				m.kept = len(m.changes)
			},
			"copy": func(rt *rapid.T) {
				if rapid.IntRange(0, 3).Draw(rt, "copy") > 0 {
					rt.Skip("not now")
				}
				if dir, err = os.MkdirTemp(t.TempDir(), "store"); err != nil {
					rt.Fatal(err)
				}
				to, err := b.Open(dir)
				if err != nil {
					rt.Fatalf("open: %v", err)
				}
				err = to.(store.Importer).Import(ctx, s.(store.Exporter).Export(ctx))
				if err = errors.Join(err, s.Close()); err != nil {
					rt.Fatalf("copy: %v", err)
				}
				s = to
				records, rev, err := s.Snapshot(ctx, "")
				if err != nil {
					rt.Fatal(err)
				}
				if got, want := text(records), text(m.snapshot("")); got != want {
					rt.Fatalf("copy:\n got %s\nwant %s", got, want)
				}
				clear(leases)
				m.copied(records, rev)
			},
		})
	})
}

// below returns the part of a change at and below prefix. It does not use package local.
func below(c store.Change, prefix string) (store.Change, bool) {
	c.Put = slices.DeleteFunc(slices.Clone(c.Put), func(r store.Record) bool { return !store.Under(prefix, r.Key) })
	c.Deleted = slices.DeleteFunc(slices.Clone(c.Deleted), func(k string) bool { return !store.Under(prefix, k) })
	return c, len(c.Put)+len(c.Deleted) > 0
}

func compare(rt *rapid.T, got, want []store.Record) {
	rt.Helper()
	same := slices.EqualFunc(got, want, func(a, b store.Record) bool {
		return a.Key == b.Key && a.Rev == b.Rev && string(a.Value) == string(b.Value)
	})
	if !same {
		rt.Fatalf("records:\n got %s\nwant %s", fmt.Sprint(got), fmt.Sprint(want))
	}
}
