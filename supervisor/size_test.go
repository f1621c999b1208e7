package supervisor

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"unsafe"
)

// What each of very many children costs. A field more is a decision, not an
// accident: raise the bound only with the benchmark at hand.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("bounds are for 64 bits")
	}
	for _, row := range []struct {
		name      string
		got, most uintptr
	}{
		{"child", unsafe.Sizeof(child{}), 144},
		{"incarnation", unsafe.Sizeof(incarnation{}), 96},
		{"action", unsafe.Sizeof(action{}), 48},
		{"window", unsafe.Sizeof(window{}), 40},
	} {
		if row.got > row.most {
			t.Errorf("a %s has %d bytes, the bound is %d", row.name, row.got, row.most)
		}
	}
}

// An exit and the restart after it leave no more behind than the incarnation
// and its goroutine.
func TestRestartAllocations(t *testing.T) {
	next, started := make(chan struct{}), make(chan struct{})
	s, err := Start(context.Background(), Spec{Limit: Limit{Max: Unlimited}, Children: []ChildSpec{{ID: "a", Run: func(ctx context.Context) error {
		started <- struct{}{}
		<-next
		return ctx.Err()
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	n := testing.AllocsPerRun(1000, func() {
		next <- struct{}{}
		<-started
	})
	if n > 4 {
		t.Errorf("%v allocations for a restart", n)
	}
	s.Stop()
	close(next)
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// Children that are gone leave nothing behind. (Rows 5.7 and 5.9.)
func TestForgottenChildrenAreFreed(t *testing.T) {
	s, err := Start(context.Background(), pool(ChildSpec{ID: "t", Restart: Temporary, Run: func(context.Context) error { return errBoom }}))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	fill := func(n int) {
		for i := range n {
			if _, err := s.StartInstance(context.Background(), fmt.Sprint(i), make([]byte, 1<<14)); err != nil {
				t.Fatal(err)
			}
			for { // until it is forgotten
				if c, _ := s.Count(); c.Workers == 0 {
					break
				}
			}
		}
	}
	fill(100)
	before := heap()
	fill(1000)
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d bytes more after 1000 children with 16 kB each", after-before)
	}
	s.Stop()
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}
