package controller

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/supervisor"
)

// BenchmarkFleet measures the part of the daemon in the life of a fleet, per agent: its start, half of it killed at
// once until that runs again, its end, and the memory that it needs at rest. The agents are played and cost little.
func BenchmarkFleet(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchFleet(b, n) })
	}
}

func benchFleet(b *testing.B, n int) {
	var words []string
	for i := range n {
		words = append(words, fmt.Sprint("a", i))
	}
	total := map[string]float64{}
	for b.Loop() {
		db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "db"))
		if err != nil {
			b.Fatal(err)
		}
		s := newStage()
		s.quiet = true
		begun := time.Now()
		lap := func(name string) {
			total[name] += float64(time.Since(begun).Microseconds())
			begun = time.Now()
		}
		before := heapInUse()
		begun = time.Now()
		c := mustOpen(b, s, db, treeOf(b, words...))
		if err := c.Started(context.Background()); err != nil {
			b.Fatal(err)
		}
		lap("start-us/agent")
		total["heap-B/agent"] += heapInUse() - before
		begun = time.Now()
		for i := 0; i < n; i += 2 {
			s.on(fmt.Sprint("t/a", i)).end(supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("killed")})
		}
		for i := 0; i < n; i += 2 {
			for path := fmt.Sprint("t/a", i); s.on(path) == nil; {
				runtime.Gosched()
			}
		}
		lap("kill-us/agent")
		c.Stop(false)
		<-c.Ended()
		lap("stop-us/agent")
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for name, sum := range total {
		b.ReportMetric(sum/float64(b.N*n), name)
	}
}

// heapInUse returns the bytes that are in use after a collection.
func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
