//go:build linux

// Command workrate measures how many tasks can be added in a second, and how many
// claimed and closed, by workers that do it all at once, each of them one after
// the other and every step durable before the next one of the same worker:
// next to queues on SQLite, and SQLite with nothing around it. With -tasks it
// measures instead how long it takes to claim a task of a backlog, to list it, and
// to end the attempt with an outcome.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/project"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	impl := flag.String("impl", "", "raw-sqlite, goqite, coppice-queue or coppice-socket")
	coppice := flag.String("coppice", "", "the built coppice, for coppice-socket")
	schema := flag.String("schema", "", "goqite's schema_sqlite.sql, for goqite")
	n := flag.Int("n", 64, "workers")
	storm := flag.Duration("d", 3*time.Second, "how long they add, and how long at most they do what was added")
	tasks := flag.Int("tasks", 0, "with a backlog of so many tasks: claims, lists and outcomes of attempts instead")
	flag.Parse()
	p := program{*impl, *coppice, *schema}
	measured := func() (report.Row, error) { return measure(context.Background(), p, *n, *storm) }
	if *tasks > 0 {
		measured = func() (report.Row, error) { return measureAttempts(context.Background(), p, *n, *tasks, *storm) }
	}
	row, err := measured()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "workrate:", err)
		os.Exit(1)
	}
}

// program is a measured program with the paths of its parts.
type program struct{ impl, coppice, schema string }

// queue is something that keeps tasks.
type queue interface {
	// add keeps one more task, on behalf of a worker.
	add(ctx context.Context, worker int) error
	// do claims the first task and closes it; false if there is none.
	do(ctx context.Context, worker int) (bool, error)
	close() error
}

// payload is the content of each task, the same for all implementations.
const (
	title = "Fix the login"
	text  = "The button does nothing. It did something before the last release, in which its colour was " +
		"changed; see the report."
)

func (p program) open(ctx context.Context, dir string, n int) (queue, error) {
	switch p.impl {
	case "raw-sqlite":
		return openRaw(ctx, dir)
	case "goqite":
		return openGoqite(ctx, dir, p.schema)
	case "coppice-queue":
		return openQueue(ctx, dir, n)
	case "coppice-socket":
		return openSocket(p.coppice, dir, n)
	}
	return nil, fmt.Errorf("unknown implementation %q", p.impl)
}

func measure(ctx context.Context, p program, n int, storm time.Duration) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "workrate-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	q, err := p.open(ctx, dir, n)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	m := map[string]float64{}
	run := func(name string, d time.Duration, act func(worker int) (bool, error)) error {
		own, served := project.ProcessorOf(os.Getpid()), project.Processor(dir)
		took, elapsed, err := all(n, d, act)
		if err != nil || len(took) == 0 {
			return errors.Join(err, fmt.Errorf("%s: %d times", name, len(took)))
		}
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
		count := float64(len(took))
		cpu := project.ProcessorOf(os.Getpid()) - own + project.Processor(dir) - served
		m[name+"_per_s"], m[name+"_cpu_us"] = count/elapsed.Seconds(), us(cpu)/count
		m[name+"_p50_us"], m[name+"_p99_us"] = us(took[len(took)/2]), us(took[len(took)*99/100])
		return nil
	}
	var added, done atomic.Int64
	add := func(i int) (bool, error) {
		added.Add(1)
		return true, q.add(ctx, i)
	}
	do := func(i int) (bool, error) {
		there, err := q.do(ctx, i)
		if there {
			done.Add(1)
		}
		return there, err
	}
	if _, _, err := all(n, storm/10, add); err != nil { // connections, pages, the log
		return row, err
	}
	if err := run("adds", storm, add); err != nil {
		return row, err
	}
	if err := run("done", storm, do); err != nil {
		return row, err
	}
	if done.Load() > added.Load() {
		return row, fmt.Errorf("%d tasks were added, and %d done", added.Load(), done.Load())
	}
	return report.Row{Impl: p.impl, Scenario: "work", N: n, Metrics: m}, nil
}

// all lets n workers act for a while, each one time after the other, or until there
// is nothing to be done. It returns what each time took, sorted.
func all(n int, d time.Duration, act func(worker int) (bool, error)) (took []time.Duration, elapsed time.Duration,
	err error) {
	each := make([][]time.Duration, n)
	errs := make([]error, n)
	begun := time.Now()
	var workers sync.WaitGroup
	for i := range n {
		workers.Go(func() {
			for there := true; there && errs[i] == nil && time.Since(begun) < d; {
				from := time.Now()
				if there, errs[i] = act(i); there {
					each[i] = append(each[i], time.Since(from))
				}
			}
		})
	}
	workers.Wait()
	elapsed = time.Since(begun)
	took = slices.Concat(each...)
	slices.Sort(took)
	return took, elapsed, errors.Join(errs...)
}
