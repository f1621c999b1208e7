package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A sequence is a sorted list, whatever is added and removed.
func TestSequence(t *testing.T) {
	var s sequence
	var want []*entry
	r := rand.New(rand.NewPCG(1, 2))
	order := func(e *entry, r *record) int { return e.before(r) }
	begin := time.Unix(0, 0)
	for n := range 20_000 {
		if n > 12_000 || len(want) > 0 && r.IntN(3) == 0 {
			if len(want) == 0 {
				break
			}
			i := r.IntN(len(want))
			s.remove(want[i].record)
			want = slices.Delete(want, i, i+1)
		} else {
			e := &entry{record: &record{Number: uint64(n)}}
			e.Priority, e.CreatedAt = r.IntN(3), begin.Add(time.Duration(r.IntN(5000)))
			s.add(e)
			i, _ := slices.BinarySearchFunc(want, e.record, order)
			want = slices.Insert(want, i, e)
		}
		if n%500 > 0 && len(want) > 0 {
			continue
		}
		if got := slices.Collect(s.after(nil)); !slices.Equal(got, want) {
			t.Fatalf("after %d steps there are %d, want %d", n, len(got), len(want))
		}
		if len(want) > 0 {
			i := r.IntN(len(want))
			if got := slices.Collect(s.after(want[i].record)); !slices.Equal(got, want[i+1:]) {
				t.Fatalf("%d come after number %d, want %d", len(got), i, len(want)-i-1)
			}
		}
	}
}

// BenchmarkAsk asks for what a pool's check and a first page ask for.
func BenchmarkAsk(b *testing.B) {
	s := memory.New()
	defer s.Close()
	q := openQueue(b, s)
	defer q.Close()
	const tasks = 100_000
	q.mu.Lock()
	for n := range tasks {
		r := &record{Number: uint64(n)}
		r.ID, r.Title, r.Status, r.Priority = fmt.Sprint("t-", n), "x", Open, n%5
		r.Pool, r.CreatedAt = fmt.Sprint("p", n%10), time.Unix(int64(n), 0)
		q.index.set(r.ID, r)
	}
	q.mu.Unlock()
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			if n, err := q.Count(b.Context(), Filter{Active: true, Pool: "p1"}); err != nil || n != tasks/10 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("count by label", func(b *testing.B) {
		for b.Loop() {
			if n, err := q.Count(b.Context(), Filter{Labels: []string{"none"}}); err != nil || n != 0 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			if all, err := q.List(b.Context(), Filter{Limit: 20, Pool: "p1"}); err != nil || len(all) != 20 {
				b.Fatal(len(all), err)
			}
		}
	})
}
