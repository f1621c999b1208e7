package queue

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/task"
)

// stores are the stores to measure.
var stores = map[string]func(*testing.B) store.Store{
	"memory": func(*testing.B) store.Store { return memory.New() },
	"sqlite": func(b *testing.B) store.Store {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "db"))
		if err != nil {
			b.Fatal(err)
		}
		return s
	},
}

// fill imports tasks into a queue.
func fill(b *testing.B, q *Queue, n int) {
	b.Helper()
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, `{"id":"b-%d","title":"Task number %d","description":"%s","status":"open","priority":%d,"issue_type":"task","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","labels":["a","b"],"coppice":{"pool":"p"}`, i, i, strings.Repeat("words ", 100), i%5)
		if i%3 == 2 {
			fmt.Fprintf(&file, `,"dependencies":[{"issue_id":"b-%d","depends_on_id":"b-%d","type":"blocks"}]`, i, i-1)
		}
		file.WriteString("}\n")
	}
	if got := bring(b, q, file.String()); got.Created != n {
		b.Fatalf("%+v", got)
	}
}

// BenchmarkDrain lets 64 agents drain 10,000 tasks.
func BenchmarkDrain(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			const agents, tasks = 64, 10_000
			for b.Loop() {
				b.StopTimer()
				s := open(b)
				q := openQueue(b, s)
				fill(b, q, tasks)
				var done atomic.Int64
				var wg sync.WaitGroup
				b.StartTimer()
				for n := range agents {
					wg.Go(func() {
						me := agent(fmt.Sprint("t/", n), 1)
						begin(b, q, me)
						for done.Load() < tasks {
							got, err := tryClaim(b.Context(), q, me, task.Claiming{Pools: []string{"p"}})
							if errors.Is(err, task.ErrNothing) {
								continue
							}
							if err == nil {
								_, err = tryFinish(b.Context(), q, me, got.ID, task.Ending{})
							}
							if err != nil {
								b.Error(err)
								return
							}
							done.Add(1)
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				if done.Load() != tasks {
					b.Errorf("%d were done", done.Load())
				}
				q.Close()
				s.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkClaim measures a claim and a release among 100,000 tasks.
func BenchmarkClaim(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := stores["sqlite"](b)
			defer s.Close()
			q := openQueue(b, s)
			defer q.Close()
			fill(b, q, n)
			me := agent("t/a", 1)
			begin(b, q, me)
			for b.Loop() {
				got := claim(b, q, me, task.Claiming{Pools: []string{"p"}})
				if _, err := release(b.Context(), q, me, got.ID, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRoute measures, among 10,000 tasks, a claim with the outcome of the attempt, which is kept with its context.
func BenchmarkRoute(b *testing.B) {
	for name, report := range map[string]outcome.Report{
		"retryable": {Kind: outcome.Retryable, Context: learned(outcome.Overloaded)},
		"decomposed": {Kind: outcome.Decomposed, Context: learned(outcome.OtherObstacle),
			Subtasks: []outcome.Subtask{{ID: "a", Objective: "x"}, {ID: "b", Objective: "y"}}},
		"completed": {Kind: outcome.Completed},
	} {
		b.Run(name, func(b *testing.B) {
			s := stores["sqlite"](b)
			defer s.Close()
			q := openQueue(b, s)
			defer q.Close()
			fill(b, q, 10_000)
			me := agent("t/a", 1)
			begin(b, q, me)
			o, err := outcome.New(report)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				made := create(b, q, task.Draft{Title: "x"})
				claim(b, q, me, task.Claiming{ID: made.ID})
				if _, err := q.Report(b.Context(), me, made.ID, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBeads imports 100,000 beads, exports them and opens the queue again.
func BenchmarkBeads(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		s := stores["sqlite"](b)
		q := openQueue(b, s)
		fill(b, q, n)
		imported := b.Elapsed()
		if got := len(exported(b, q)); got != n {
			b.Errorf("%d were exported", got)
		}
		exported := b.Elapsed()
		q.Close()
		q = openQueue(b, s)
		opened := b.Elapsed()
		q.Close()
		s.Close()
		b.ReportMetric(imported.Seconds(), "s/import")
		b.ReportMetric((exported - imported).Seconds(), "s/export")
		b.ReportMetric((opened - exported).Seconds(), "s/open")
	}
}
