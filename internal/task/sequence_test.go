package task

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A sequence equals a sorted list after any additions and removals.
func TestSequence(t *testing.T) {
	var s sequence
	var want []*entry
	r := rand.New(rand.NewPCG(1, 2))
	order := func(e *entry, r *Record) int { return e.compare(r) }
	begin := time.Unix(0, 0)
	for n := range 20_000 {
		if n > 12_000 || len(want) > 0 && r.IntN(3) == 0 {
			if len(want) == 0 {
				break
			}
			i := r.IntN(len(want))
			s.remove(want[i].Record)
			want = slices.Delete(want, i, i+1)
		} else {
			e := &entry{Record: &Record{Number: uint64(n)}}
			e.Priority, e.CreatedAt = r.IntN(3), begin.Add(time.Duration(r.IntN(5000)))
			s.add(e)
			i, _ := slices.BinarySearchFunc(want, e.Record, order)
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
			if got := slices.Collect(s.after(want[i].Record)); !slices.Equal(got, want[i+1:]) {
				t.Fatalf("%d come after number %d, want %d", len(got), i, len(want)-i-1)
			}
		}
	}
}
