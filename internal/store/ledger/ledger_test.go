package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type thing struct {
	Name string `json:"name"`
}

// view is the content of a ledger as reported to its index.
type view map[uint64]string

// open opens a ledger, and checks that the calls of its index are consistent.
func open(t interface {
	Fatalf(string, ...any)
	Helper()
}, s store.Store) (*Ledger[thing], view) {
	t.Helper()
	seen := view{}
	l, err := Open(context.Background(), Options[thing]{
		Store: s, Prefix: "things", Logger: slog.New(slog.DiscardHandler),
		Check: func(_ uint64, x *thing) error {
			if x.Name == "" {
				return errors.New("no name")
			}
			return nil
		},
		Index: func(n uint64, before, now *thing) {
			old, there := seen[n]
			if (before != nil) != there || before != nil && before.Name != old {
				t.Fatalf("index of %d: before is %v, and was %q", n, before, old)
			}
			if delete(seen, n); now != nil {
				seen[n] = now.Name
			}
		},
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return l, seen
}

func add(l *Ledger[thing], name string) (n uint64, err error) {
	err = l.Update(context.Background(), func(c *Change[thing]) error {
		n = c.Add(func(uint64) thing { return thing{name} })
		c.Also(store.Op{Kind: store.Append, Key: "log", Value: []byte(name)})
		return nil
	})
	return n, err
}

// Whatever a store does that the interface allows, each step is done once, and
// a ledger that is opened again has what the one before had.
func TestLedger(t *testing.T) {
	var faults storetest.Counts
	rapid.Check(t, func(t *rapid.T) {
		inner := memory.New()
		defer inner.Close()
		s := storetest.NewFaults(inner, rapid.Uint64().Draw(t, "seed"), storetest.Rates{Unknown: 0.3, Conflict: 0.3})
		defer func() {
			c := s.Counts()
			faults.UnknownDone += c.UnknownDone
			faults.UnknownNotDone += c.UnknownNotDone
			faults.Conflicts += c.Conflicts
		}()
		l, seen := open(t, s)
		model, last, steps := view{}, uint64(0), 0
		some := func(t *rapid.T) uint64 {
			if len(model) == 0 {
				t.Skip("empty")
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(t, "n")
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				name := rapid.StringMatching("[a-c]").Draw(t, "name")
				n, err := add(l, name)
				if err != nil || n <= last {
					t.Fatalf("number %d after %d, %v", n, last, err)
				}
				last, model[n] = n, name
				steps++
			},
			"change several": func(t *rapid.T) {
				gone, other := some(t), some(t)
				name := rapid.StringMatching("[a-c]").Draw(t, "name")
				err := l.Update(t.Context(), func(c *Change[thing]) error {
					c.Delete(gone)
					if other != gone {
						c.Put(other, thing{name})
					}
					c.Also(store.Op{Kind: store.Append, Key: "log", Value: []byte(name)})
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if delete(model, gone); other != gone {
					model[other] = name
				}
				steps++
			},
			"refuse": func(t *rapid.T) {
				no := errors.New("no")
				if err := l.Update(t.Context(), func(c *Change[thing]) error { c.Add(func(uint64) thing { return thing{"x"} }); return no }); err != no {
					t.Fatal(err)
				}
			},
			"full": func(t *rapid.T) {
				s.Fail(store.ErrFull)
				if _, err := add(l, "x"); !errors.Is(err, store.ErrFull) {
					t.Fatal(err)
				}
				s.Fail(nil)
			},
			"given up": func(t *rapid.T) {
				// What came of it is unknown until the next one looks.
				ctx, cancel := context.WithCancel(t.Context())
				n := uint64(0)
				err := l.Update(ctx, func(c *Change[thing]) error {
					n = c.Add(func(uint64) thing { return thing{"g"} })
					c.Also(store.Op{Kind: store.Append, Key: "log", Value: []byte("g")})
					cancel()
					return nil
				})
				cancel()
				records, _, _ := inner.Snapshot(t.Context(), "things")
				done := len(records) > len(model)
				if err == nil != done && !errors.Is(err, store.ErrUnknown) && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrConflict) {
					t.Fatalf("done %v: %v", done, err)
				}
				if done {
					last, model[n] = n, "g"
					steps++
				}
			},
			"reopen": func(t *rapid.T) { l, seen = open(t, s) },
			"": func(t *rapid.T) {
				if l.stale {
					return
				}
				if !maps.Equal(seen, model) {
					t.Fatalf("index %v, model %v", seen, model)
				}
				log, _, err := inner.Snapshot(t.Context(), "log")
				if err != nil || len(log) != steps {
					t.Fatalf("%d entries of the log for %d steps, %v", len(log), steps, err)
				}
			},
		})
	})
	if faults.UnknownDone == 0 || faults.UnknownNotDone == 0 || faults.Conflicts == 0 {
		t.Errorf("not everything was tried: %+v", faults)
	}
}

// A write that was given up and lands later is noticed, and its number is not reused.
func TestLateWrite(t *testing.T) {
	s := memory.New()
	defer s.Close()
	late := &lateStore{Store: s, hold: true}
	l, seen := open(t, late)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Update(ctx, func(c *Change[thing]) error {
		c.Add(func(uint64) thing { return thing{"late"} })
		return nil
	}); !errors.Is(err, store.ErrUnknown) {
		t.Fatal(err)
	}
	// It arrives after the ledger has looked, and before the next one is written.
	late.hold = false
	late.before = late.land
	if n, err := add(l, "next"); err != nil || n != 2 {
		t.Fatalf("number %d, %v", n, err)
	}
	if want := (view{1: "late", 2: "next"}); !maps.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}

// lateStore keeps writes back that it says nothing about.
type lateStore struct {
	store.Store
	hold   bool
	before func()
	conds  []store.Cond
	ops    []store.Op
}

func (s *lateStore) land() {
	s.before = nil
	s.Store.Apply(context.Background(), store.Fence{}, s.conds, s.ops)
}

func (s *lateStore) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if s.hold {
		s.conds, s.ops = conds, ops
		return 0, store.ErrUnknown
	}
	if s.before != nil {
		s.before()
	}
	return s.Store.Apply(ctx, f, conds, ops)
}

// A bad record affects only itself: it stays, and its number is not reused.
func TestBadRecords(t *testing.T) {
	ctx := t.Context()
	for name, value := range map[string]string{"no JSON": "{", "another type": "[1]", "not checked": `{}`, "empty": ""} {
		s := memory.New()
		l, _ := open(t, s)
		for i := range 3 {
			if _, err := add(l, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		bad := store.SequenceKey("things", 9)
		for key, value := range map[string]string{bad: value, store.SequenceKey("things", 2): value, "things/x": "1", "things-last": "many", store.SequenceKey("things", 1<<60): `{"name":"far"}`} {
			if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: key, Value: []byte(value)}}); err != nil {
				t.Fatal(err)
			}
		}
		l, seen := open(t, s)
		if want := (view{1: "0", 3: "2"}); !maps.Equal(seen, want) {
			t.Errorf("%s: %v, want %v", name, seen, want)
		}
		if n, err := add(l, "new"); err != nil || n != 10 {
			t.Errorf("%s: number %d, %v", name, n, err)
		}
		if records, _, _ := s.Snapshot(ctx, bad); len(records) != 1 || string(records[0].Value) != value {
			t.Errorf("%s: the record is %v", name, records)
		}
		s.Close()
	}
}

// Concurrent writers get distinct numbers, in SQLite as in memory.
func TestConcurrent(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, seen := open(t, db)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				if _, err := add(l, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != 80 || seen[80] == "" {
		t.Errorf("%d things, the last is %q", len(seen), seen[80])
	}
	again, seenAgain := open(t, db)
	if !maps.Equal(seen, seenAgain) || again.last != 80 {
		t.Errorf("opened again: %d things", len(seenAgain))
	}
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	l.writing <- struct{}{}
	if err := l.Update(waiting, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("while another one writes: %v", err)
	}
	<-l.writing
}
