package event

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openLog(t testing.TB, cfg Config) *Log {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memory.New()
	}
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Close(ctx)
	})
	return l
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, l *Log, after uint64, f Filter) []Event {
	t.Helper()
	events, _, err := l.Read(context.Background(), after, f, 0)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// lines is a list of events as "seq type message".
func lines(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s %s\n", e.Seq, e.Type, e.Message)
	}
	return b.String()
}

func TestAppendAndRead(t *testing.T) {
	l := openLog(t, Config{})
	when := time.Date(2024, 2, 3, 4, 5, 6, 7, time.FixedZone("", 3600))
	l.Append(Event{Type: AgentStarted, Path: "app/db", Incarnation: 1, Time: when})
	l.Append(Event{Type: AgentCrashed, Path: "app/db", Incarnation: 1, Actor: "patrol", Message: "exit 1"}.With(map[string]int{"code": 1}))
	l.Append(Event{Type: AgentStarted, Path: "app/dbx"})
	l.Append(Event{Type: OrderFired, Path: "app"})
	l.Append(Event{})
	flush(t, l)

	all := read(t, l, 0, Filter{})
	if len(all) != 5 {
		t.Fatalf("%d events:\n%s", len(all), lines(all))
	}
	for i, e := range all {
		if e.Seq != uint64(i+1) || e.Time.IsZero() {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	var data struct{ Code int }
	if e := all[1]; e.Decode(&data) != nil || data.Code != 1 || e.Actor != "patrol" || e.Incarnation != 1 {
		t.Errorf("crashed: %+v, data %+v", e, data)
	}
	if !all[0].Time.Equal(when) || all[4].Type != Unnamed {
		t.Errorf("time %v, type %s", all[0].Time, all[4].Type)
	}

	for _, c := range []struct {
		name  string
		after uint64
		f     Filter
		want  string // the numbers
	}{
		{"after", 3, Filter{}, "45"},
		{"at the end", 5, Filter{}, ""},
		{"type", 0, Filter{Types: []string{"agent.started"}}, "13"},
		{"glob", 0, Filter{Types: []string{"agent.*"}}, "123"},
		{"several", 0, Filter{Types: []string{"order.*", "*.crashed"}}, "24"},
		{"path", 0, Filter{Path: "app/db"}, "12"},
		{"path above", 0, Filter{Path: "app/"}, "1234"},
		{"both", 1, Filter{Path: "app", Types: []string{"agent.started"}}, "3"},
	} {
		got := ""
		for _, e := range read(t, l, c.after, c.f) {
			got += fmt.Sprint(e.Seq)
		}
		if got != c.want {
			t.Errorf("%s: events %s, want %s", c.name, got, c.want)
		}
	}
	if _, _, err := l.Read(context.Background(), 0, Filter{Types: []string{"agent.["}}, 0); err == nil {
		t.Error("a bad pattern is taken")
	}
	// By pages, with a cursor that goes past what does not match.
	page, next, err := l.Read(context.Background(), 0, Filter{Types: []string{"agent.*"}}, 2)
	if err != nil || len(page) != 2 || next != 2 {
		t.Errorf("page %s, next %d, %v", lines(page), next, err)
	}
	page, next, err = l.Read(context.Background(), next, Filter{Types: []string{"agent.*"}}, 2)
	if err != nil || len(page) != 1 || next != 5 {
		t.Errorf("page %s, next %d, %v", lines(page), next, err)
	}
}

func TestFollow(t *testing.T) {
	l := openLog(t, Config{})
	const writers, each, followers = 8, 50, 4
	for i := range 10 {
		l.Append(Event{Type: "task.edited", Message: fmt.Sprint(i)})
	}
	var wg sync.WaitGroup
	for f := range followers {
		wg.Go(func() {
			next := uint64(1)
			// Each follower is interrupted after every few events, and goes on by its cursor.
			for next <= 10+writers*each {
				n := 0
				for e, err := range l.Follow(t.Context(), next-1, Filter{}) {
					if err != nil || e.Seq != next {
						t.Errorf("follower %d got %d (%v), wants %d", f, e.Seq, err, next)
						return
					}
					next++
					if n++; n > 7*(f+1) || next > 10+writers*each {
						break
					}
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				l.Append(Event{Type: "task.created", Actor: fmt.Sprint(w), Message: fmt.Sprint(i)})
			}
		})
	}
	wg.Wait()
	next := map[string]int{}
	for _, e := range read(t, l, 10, Filter{}) {
		if e.Message != fmt.Sprint(next[e.Actor]) {
			t.Fatalf("writer %s: event %s where %d belongs", e.Actor, e.Message, next[e.Actor])
		}
		next[e.Actor]++
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range l.Follow(ctx, 10+writers*each, Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("follow with an ended context: %v", err)
		}
	}
}

// Two logs on one store, as from two nodes: the numbers are unique over both.
func TestWriters(t *testing.T) {
	s := memory.New()
	a, b := openLog(t, Config{Store: s, Writer: "a"}), openLog(t, Config{Store: s, Writer: "b"})
	for range 100 {
		a.Append(Event{Type: "task.created", Actor: "a"})
		b.Append(Event{Type: "task.created", Actor: "b"})
	}
	flush(t, a)
	flush(t, b)
	seen := map[uint64]bool{}
	for _, e := range read(t, a, 0, Filter{}) {
		if seen[e.Seq] {
			t.Fatalf("number %d twice", e.Seq)
		}
		seen[e.Seq] = true
	}
	if len(seen) != 200 {
		t.Errorf("%d events", len(seen))
	}
}

// Whatever the store does, each event is in the log once, in order.
func TestFaults(t *testing.T) {
	var total storetest.Counts
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := storetest.NewFaults(memory.New(), seed, storetest.Rates{Unknown: 0.5, Conflict: 0.3, Repeat: 0.3, Late: 0.3})
			l := openLog(t, Config{Store: f})
			const n = 200
			var wg sync.WaitGroup
			wg.Go(func() {
				next := 0
				for e, err := range l.Follow(t.Context(), 0, Filter{Types: []string{"task.created"}}) {
					if err != nil || e.Message != fmt.Sprint(next) {
						t.Errorf("seed %d: got %q (%v), want %d", seed, e.Message, err, next)
						return
					}
					if next++; next == n {
						return
					}
				}
			})
			for i := range n {
				l.Append(Event{Type: "task.created", Message: fmt.Sprint(i)})
				if i%5 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			flush(t, l)
			wg.Wait()
			c := f.Counts()
			total.UnknownDone += c.UnknownDone
			total.UnknownNotDone += c.UnknownNotDone
			total.Conflicts += c.Conflicts
			// The log may have a word of its own to say about such a store.
			if events := read(t, l, 0, Filter{Types: []string{"task.created"}}); len(events) != n {
				t.Errorf("seed %d: %d events, want %d", seed, len(events), n)
			}
		})
	}
	if total.UnknownDone < 5 || total.UnknownNotDone < 5 || total.Conflicts < 5 {
		t.Errorf("not much went wrong: %+v", total)
	}
}

// Events in quick succession are written together, unless a caller waits.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, Config{Store: memory.New()})
		for i := range 3 {
			l.Append(Event{Type: "task.created", Message: fmt.Sprint(i)})
			time.Sleep(batchDelay / 4)
		}
		if n := len(read(t, l, 0, Filter{})); n != 0 {
			t.Errorf("%d events were written before the others came", n)
		}
		time.Sleep(batchDelay)
		synctest.Wait()
		if n := len(read(t, l, 0, Filter{})); n != 3 || l.batches != 2 {
			t.Errorf("%d events in %d batches, want 3 in 1", n, l.batches-1)
		}
		l.Append(Event{Type: "task.created"})
		begin := time.Now()
		flush(t, l)
		if took := time.Since(begin); took != 0 {
			t.Errorf("who waited, waited for %v", took)
		}
	})
}

// While events keep coming, their batches become larger, unless a caller waits.
func TestBurstMakesLargeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, Config{Store: memory.New()})
		const n = 1000
		for range n {
			l.Append(Event{Type: "task.created"})
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if most := burstBatches + n/int(burstDelay/time.Millisecond); int(l.batches) > most {
			t.Errorf("%d batches, want at most %d", l.batches, most)
		}
		l.Append(Event{Type: "task.created"})
		begin := time.Now()
		flush(t, l)
		if took := time.Since(begin); took != 0 {
			t.Errorf("a caller waited for %v", took)
		}
		time.Sleep(burstDelay)
		for range 2 {
			before := l.batches
			l.Append(Event{Type: "task.created"})
			time.Sleep(batchDelay)
			synctest.Wait()
			if l.batches == before {
				t.Error("a single event waits for others after a burst")
			}
		}
	})
}

// slowStore is a store whose writes take some time.
type slowStore struct{ store.Store }

func (s slowStore) Apply(
	ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op,
) (store.Rev, error) {
	time.Sleep(5 * time.Millisecond)
	return s.Store.Apply(ctx, f, conds, ops)
}

// Sync waits for the events that were appended before it, not for those that others keep appending.
func TestSyncWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, Config{Store: slowStore{memory.New()}})
		ctx, cancel := context.WithCancel(t.Context())
		var appending sync.WaitGroup
		appending.Go(func() {
			for ctx.Err() == nil {
				l.Append(Event{Type: "task.created"})
				time.Sleep(time.Millisecond)
			}
		})
		time.Sleep(time.Second)
		began := time.Now()
		bounded, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		if err := l.Sync(bounded); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		cancel()
		appending.Wait()
		flush(t, l)
	})
}

// SyncTo does not wait for a store that fails meanwhile.
func TestSyncToBadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
		l := openLog(t, Config{Store: f})
		f.Fail(store.ErrFull)
		l.Append(Event{Type: "task.created"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		if err := l.SyncTo(ctx, l.Mark()); !errors.Is(err, store.ErrFull) {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		f.Fail(nil)
		flush(t, l)
	})
}

func TestStoreFull(t *testing.T) {
	for _, refusal := range []error{store.ErrFull, store.ErrReadOnly, errors.New("odd")} {
		synctest.Test(t, func(t *testing.T) {
			f := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
			l := openLog(t, Config{Store: f, MaxBuffer: 10_000})
			l.Append(Event{Type: "task.created", Message: "0"})
			flush(t, l)
			f.Fail(refusal)
			l.Append(Event{Type: "task.created", Message: "1"})
			time.Sleep(batchDelay)
			synctest.Wait()
			if !errors.Is(l.Err(), refusal) {
				t.Errorf("state: %v", l.Err())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := l.Sync(ctx); !errors.Is(err, refusal) {
				t.Errorf("sync: %v", err)
			}
			const n = 1000 // far more than fit
			begin := time.Now()
			for i := range n {
				l.Append(Event{Type: "task.created", Message: fmt.Sprint(i + 2)})
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("append waited %v", took)
			}
			time.Sleep(time.Hour)
			if l.bytes > 10_000 {
				t.Errorf("%d bytes in memory", l.bytes)
			}
			f.Fail(nil)
			flush(t, l)
			synctest.Wait()
			if l.Err() != nil {
				t.Errorf("state: %v", l.Err())
			}
			flush(t, l)
			events := read(t, l, 0, Filter{})
			if events[0].Message != "0" || events[1].Message != "1" || events[2].Type != EventsDropped {
				t.Fatalf("begins with\n%s", lines(events[:4]))
			}
			var d Dropped
			if err := events[2].Decode(&d); err != nil || d.First.IsZero() || d.Last.Before(d.First) {
				t.Errorf("dropped: %+v, %v", d, err)
			}
			kept := events[3 : len(events)-1]
			// One of the dropped was the report that the store takes no writes.
			if int(d.Count)+len(kept) != n+1 {
				t.Errorf("%d dropped and %d kept of %d", d.Count, len(kept), n+1)
			}
			for i, e := range kept {
				if want := fmt.Sprint(n + 2 - len(kept) + i); e.Message != want {
					t.Fatalf("kept %s, want %s", e.Message, want)
				}
			}
			if e := events[len(events)-1]; e.Type != StoreRecovered {
				t.Errorf("ends with %s", e)
			}
		})
	}
}

func TestDegradedIsReported(t *testing.T) {
	for _, why := range []error{store.ErrFull, store.ErrReadOnly, store.ErrUnknown, errors.New("disk I/O error")} {
		t.Run(why.Error(), func(t *testing.T) { testDegradedIsReported(t, why) })
	}
}

func testDegradedIsReported(t *testing.T, why error) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
		l := openLog(t, Config{Store: f})
		f.Fail(why)
		l.Append(Event{Type: "task.created"})
		time.Sleep(time.Minute)
		l.Append(Event{Type: "task.edited"})
		f.Fail(nil)
		time.Sleep(time.Minute)
		got := lines(read(t, l, 0, Filter{}))
		for i, want := range []Type{TaskCreated, StoreDegraded, TaskEdited, StoreRecovered} {
			if !strings.Contains(got, fmt.Sprintf("%d %s ", i+1, want)) {
				t.Errorf("event %d is not %s:\n%s", i+1, want, got)
			}
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
		l := openLog(t, Config{Store: f})
		for range 300 {
			l.Append(Event{Type: "task.created"})
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Append(Event{Type: "task.closed"})
		if n := len(read(t, l, 0, Filter{})); n != 300 {
			t.Errorf("%d events after close", n)
		}

		l = openLog(t, Config{Store: f})
		f.Fail(store.ErrFull)
		l.Append(Event{Type: "task.created"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, store.ErrFull) {
			t.Errorf("close with a full store: %v", err)
		}

		f.Fail(nil)
		l = openLog(t, Config{Store: f})
		f.Store.Close()
		l.Append(Event{Type: "task.created"})
		if err := l.Sync(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("sync with a closed store: %v", err)
		}
		if err := l.Close(t.Context()); err == nil {
			t.Error("close lost an event and says nothing")
		}
	})
}

func TestRetention(t *testing.T) {
	t.Run("age", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, Config{MaxAge: time.Hour})
			for range 200 {
				l.Append(Event{Type: "task.created"})
			}
			time.Sleep(50 * time.Minute)
			for range 200 {
				l.Append(Event{Type: "task.edited"})
			}
			time.Sleep(20 * time.Minute)
			old := len(read(t, l, 0, Filter{Types: []string{"task.created"}}))
			if fresh := len(read(t, l, 0, Filter{Types: []string{"task.edited"}})); old >= blockSize || fresh != 200 {
				t.Errorf("%d old and %d new events are left", old, fresh)
			}
			time.Sleep(2 * time.Hour)
			if left := read(t, l, 0, Filter{}); len(left) != 0 {
				t.Errorf("%d events are left", len(left))
			}
			l.Append(Event{Type: "task.closed"})
			flush(t, l)
			if got := lines(read(t, l, 400, Filter{})); got != "401 task.closed \n" {
				t.Errorf("after 400: %s", got)
			}
			if got := read(t, l, 150, Filter{}); len(got) != 2 || got[0].Type != EventsCompacted || got[0].Seq != 400 || got[1].Seq != 401 {
				t.Errorf("after 150: %s", lines(got))
			}
		})
	})
	t.Run("size", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New()
			l := openLog(t, Config{Store: s, MaxBytes: 100_000})
			for range 5000 {
				l.Append(Event{Type: "task.created", Message: strings.Repeat("x", 100)})
			}
			time.Sleep(2 * time.Minute)
			size := 0
			records, _, _ := s.Snapshot(t.Context(), "events")
			for _, r := range records {
				size += len(r.Value)
			}
			if size > 100_000 || size < 80_000 {
				t.Errorf("%d bytes are left", size)
			}
			// A restarted log counts what is there.
			l.Close(t.Context())
			l = openLog(t, Config{Store: s, MaxBytes: 10_000})
			time.Sleep(2 * time.Minute)
			if left := read(t, l, 0, Filter{}); len(left) > 100 || len(left) == 0 {
				t.Errorf("%d events are left", len(left))
			}
		})
	})
	t.Run("follower", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, Config{MaxBytes: 20_000})
			next := uint64(1)
			missed := 0
			write := func(n int) {
				for range n {
					l.Append(Event{Type: "task.created", Message: strings.Repeat("x", 50)})
				}
				time.Sleep(2 * time.Minute)
			}
			write(10)
			for e, err := range l.Follow(t.Context(), 0, Filter{Types: []string{"task.created"}}) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Type == EventsCompacted {
					var c Compacted
					if e.Decode(&c) != nil || c.After != next-1 || c.Until != e.Seq || c.Until < next {
						t.Fatalf("gap %+v, want it from %d", c, next)
					}
					missed++
				} else if e.Seq != next {
					t.Fatalf("got %d, want %d", e.Seq, next)
				}
				next = e.Seq + 1
				if e.Seq == 10 || missed == 1 && e.Seq%1000 == 0 {
					write(1000) // while the follower does something else
				}
				if missed == 2 {
					break
				}
			}
		})
	})
}

// A cursor past the end of the log belongs to a log that no longer exists.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLog(t, Config{})
		l.Append(Event{Type: "task.created"})
		flush(t, l)
		if got := lines(read(t, l, 1000, Filter{Types: []string{"task.created"}})); !strings.HasPrefix(got, "0 events.reset") || !strings.HasSuffix(got, "1 task.created \n") {
			t.Errorf("after 1000:\n%s", got)
		}
		for e, err := range l.Follow(t.Context(), 7, Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == TaskCreated {
				break
			}
		}
		if got := read(t, l, 1, Filter{}); len(got) != 0 {
			t.Errorf("after the last one: %s", lines(got))
		}
	})
}

func TestSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	l := openLog(t, Config{Store: s})
	for i := range 1000 {
		l.Append(Event{Type: "task.created", Message: fmt.Sprint(i)})
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s, err = sqlite.Open(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l = openLog(t, Config{Store: s})
	l.Append(Event{Type: "task.created", Message: "1000"})
	n := 0
	for e, err := range l.Follow(t.Context(), 0, Filter{}) {
		if err != nil || e.Seq != uint64(n+1) || e.Message != fmt.Sprint(n) {
			t.Fatalf("event %d is %d %s, %v", n+1, e.Seq, e.Message, err)
		}
		if n++; n == 1001 {
			break
		}
	}
	l.Close(t.Context())
}

// scans counts how often a store is read.
type scans struct {
	store.Store
	n atomic.Int64
}

func (s *scans) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	s.n.Add(1)
	return s.Store.Scan(ctx, prefix, after, limit)
}

// A follower that keeps up gets events as they are written, without reading the store.
func TestFollowReadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scans{Store: memory.New()}
		l := openLog(t, Config{Store: s})
		l.Append(Event{Type: "task.created"})
		flush(t, l)
		seen := make(chan uint64)
		go func() {
			for e := range l.Follow(t.Context(), 0, Filter{Types: []string{"task.created"}}) {
				select {
				case seen <- e.Seq:
				case <-t.Context().Done():
				}
			}
		}()
		if seq := <-seen; seq != 1 {
			t.Errorf("got %d first", seq)
		}
		synctest.Wait() // it waits for more
		before := s.n.Load()
		for seq := uint64(2); seq < 100; seq++ {
			l.Append(Event{Type: "task.created"})
			if got := <-seen; got != seq {
				t.Errorf("got %d, want %d", got, seq)
			}
		}
		if read := s.n.Load() - before; read > 0 {
			t.Errorf("the store was read %d times", read)
		}
	})
}
