package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
)

// collect reads n changes of a watch.
func collect(t testing.TB, s store.Store, prefix string, from store.Rev, n int) []store.Change {
	t.Helper()
	var changes []store.Change
	if n == 0 {
		return nil
	}
	for c, err := range s.Watch(t.Context(), prefix, from) {
		if err != nil {
			t.Errorf("watch of %q from %d, after %d of %d changes: %v", prefix, from, len(changes), n, err)
			break
		}
		if changes = append(changes, c); len(changes) == n {
			break
		}
	}
	return changes
}

func describe(c store.Change) string {
	return fmt.Sprintf("%d: %s -%s", c.Rev, text(c.Put), strings.Join(c.Deleted, " -"))
}

func testWatch(t *testing.T, b Backend) {
	t.Run("resume", func(t *testing.T) {
		s := b.open(t)
		var revs []store.Rev
		for i := range 20 {
			revs = append(revs, must(t, s, put("w/x", fmt.Sprint(i)), put(fmt.Sprint("w/", i), ""), add("w/log", "e")))
			must(t, s, put("elsewhere", "x"), put("wx", "not below"))
			must(t, s, del("elsewhere"))
		}
		whole := collect(t, s, "w", 0, 20)
		for i, c := range whole {
			if c.Rev != revs[i] || len(c.Put) != 3 || len(c.Deleted) != 0 || string(c.Put[0].Value) != fmt.Sprint(i) {
				t.Fatalf("change %d is %s", i, describe(c))
			}
			for _, r := range c.Put {
				if r.Rev != c.Rev || !store.Under("w", r.Key) {
					t.Errorf("change %d has record %s of revision %d", i, r.Key, r.Rev)
				}
			}
		}
		// From every point, also between two changes of the prefix.
		for i, c := range whole {
			rest := collect(t, s, "w", c.Rev, len(whole)-i-1)
			for j, r := range rest {
				if describe(r) != describe(whole[i+1+j]) {
					t.Fatalf("resumed after %d, change %d is %s, want %s", c.Rev, j, describe(r),
						describe(whole[i+1+j]))
				}
			}
		}
		if c := collect(t, s, "w/log", revs[4]+1, 1); c[0].Rev != revs[5] || len(c[0].Put) != 1 {
			t.Errorf("resumed between two changes: %s", describe(c[0]))
		}
	})

	t.Run("live", func(t *testing.T) {
		s := b.open(t)
		_, rev, err := s.Snapshot(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		const watches, changes = 8, 100
		results := make([][]store.Change, watches)
		var wg sync.WaitGroup
		for i := range watches {
			wg.Go(func() { results[i] = collect(t, s, "live", rev, changes) })
		}
		for i := range changes {
			must(t, s, put("live/k", fmt.Sprint(i)))
		}
		wg.Wait()
		for w, got := range results {
			for i, c := range got {
				if len(c.Put) != 1 || string(c.Put[0].Value) != fmt.Sprint(i) {
					t.Fatalf("watch %d: change %d is %s", w, i, describe(c))
				}
			}
		}
	})

	t.Run("ends", func(t *testing.T) {
		s := b.open(t)
		rev := must(t, s, put("a", "1"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range s.Watch(ctx, "", 0) {
			if n++; err == nil {
				cancel()
				continue
			}
			wantErr(t, "watch whose context ended", err, context.Canceled)
		}
		if n != 2 {
			t.Errorf("%d yields", n)
		}
		for _, err := range s.Watch(t.Context(), "", rev+1000) {
			wantErr(t, "watch from the future", err, store.ErrCompacted)
		}
		ended := make(chan error)
		go func() {
			var last error
			for _, err := range s.Watch(context.Background(), "", rev) {
				last = err
			}
			ended <- last
		}()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "watch of a store that closes", <-ended, store.ErrClosed)
		for _, err := range s.Watch(t.Context(), "", rev) {
			wantErr(t, "watch of a closed store", err, store.ErrClosed)
		}
	})

	t.Run("compacted", func(t *testing.T) {
		s := b.open(t)
		first := must(t, s, put("a", "1"))
		// A watch that falls behind gets an error; the store does not keep all changes for it.
		var last error
		seen, n := first, 0
		big := strings.Repeat("v", store.MaxValue)
		for c, err := range s.Watch(t.Context(), "", 0) {
			if err != nil {
				last = err
				break
			}
			if c.Rev < seen {
				t.Fatalf("revision %d after %d", c.Rev, seen)
			}
			seen = c.Rev
			if n++; n == 1 {
				for range 64 {
					must(t, s, put("big", big))
				}
			} else if c.Rev == get(t, s, "big").Rev {
				if n != 65 {
					t.Fatalf("the watch yielded %d of 65 changes, and no error", n)
				}
				t.Skip("this store keeps more than 64 MiB of changes")
			}
		}
		wantErr(t, "watch left behind", last, store.ErrCompacted)
		// It can resume from a snapshot.
		records, rev, err := s.Snapshot(t.Context(), "")
		if err != nil || len(records) != 2 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		next := must(t, s, put("a", "2"))
		if c := collect(t, s, "", rev, 1); c[0].Rev != next {
			t.Errorf("after a new snapshot: %s", describe(c[0]))
		}
	})
}

// testConcurrent runs many writers and a watch concurrently.
func testConcurrent(t *testing.T, b Backend) {
	ctx, s := t.Context(), b.open(t)
	writers, each := 16, 25
	if b.Shared {
		writers, each = 6, 15 // each call takes a while, and one of them succeeds at a time
	}
	var wg sync.WaitGroup

	watched := make(chan []store.Change, 1)
	wg.Go(func() { watched <- collect(t, s, "c", 0, writers*each) })

	for w := range writers {
		wg.Go(func() {
			for i := range each {
				increment(t, ctx, s, "c/counter", store.Op{Kind: store.Append, Key: "c/log",
					Value: fmt.Appendf(nil, "%d.%d", w, i)})
			}
		})
	}
	wg.Wait()

	if got := string(get(t, s, "c/counter").Value); got != fmt.Sprint(writers*each) {
		t.Errorf("counter is %s after %d increments", got, writers*each)
	}
	log := all(t, s, "c/log")
	if len(log) != writers*each {
		t.Errorf("%d appended records, want %d", len(log), writers*each)
	}
	next := make([]int, writers)
	for _, r := range log {
		var w, i int
		fmt.Sscanf(string(r.Value), "%d.%d", &w, &i)
		if i != next[w] {
			t.Fatalf("append %d of writer %d comes where %d belongs", i, w, next[w])
		}
		next[w]++
	}
	// Each change has the counter's value and the log record of the same Apply, in order.
	for i, c := range <-watched {
		if len(c.Put) != 2 || string(c.Put[0].Value) != fmt.Sprint(i+1) || c.Put[1].Key != log[i].Key {
			t.Fatalf("change %d: %s", i, describe(c))
		}
	}
}

// increment adds one to a counter under a condition, and retries until it succeeds.
func increment(t testing.TB, ctx context.Context, s store.Store, key string, extra ...store.Op) {
	for {
		r := get(t, s, key)
		n := 0
		fmt.Sscan(string(r.Value), &n)
		_, err := s.Apply(ctx, store.Fence{}, []store.Cond{{Key: key, Rev: r.Rev}},
			append([]store.Op{put(key, fmt.Sprint(n+1))}, extra...))
		switch {
		case err == nil:
			return
		case !errors.Is(err, store.ErrConflict):
			t.Errorf("increment: %v", err)
			return
		}
	}
}
