//go:build linux

// Command beliefrate measures how many beliefs agents can set in a second, each
// of them one after the other and all at once, every write durable before the
// next one of the same agent: through the package, through the socket of a
// daemon, and with a commit of its own for each write.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/project"
	"github.com/coppice-dev/coppice/bench/internal/report"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/value"
)

func main() {
	impl := flag.String("impl", "", "raw-commit, coppice-book or coppice-socket")
	coppice := flag.String("coppice", "", "the built coppice, for coppice-socket")
	n := flag.Int("n", 100, "agents")
	storm := flag.Duration("d", 3*time.Second, "how long they write")
	flag.Parse()
	row, err := measure(context.Background(), *impl, *coppice, *n, *storm)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "beliefrate:", err)
		os.Exit(1)
	}
}

// set writes a belief of agent i, and returns when that is durable.
type set func(ctx context.Context, i, n int) error

func measure(ctx context.Context, impl, coppice string, n int, storm time.Duration) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "beliefrate-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	var write set
	var end func() error
	switch impl {
	case "raw-commit":
		write, end, err = throughBook(ctx, dir, n, true)
	case "coppice-book":
		write, end, err = throughBook(ctx, dir, n, false)
	case "coppice-socket":
		write, end, err = throughSocket(coppice, dir, n)
	default:
		err = fmt.Errorf("unknown implementation %q", impl)
	}
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if _, err := rate(ctx, write, n, storm/10); err != nil { // connections, pages, the log
		return row, err
	}
	own, served := project.ProcessorOf(os.Getpid()), project.Processor(dir)
	m, err := rate(ctx, write, n, storm)
	if err == nil {
		writes := m["writes"]
		delete(m, "writes")
		m["client_cpu_us"] = float64((project.ProcessorOf(os.Getpid()) - own).Microseconds()) / writes
		m["daemon_cpu_us"] = float64((project.Processor(dir) - served).Microseconds()) / writes
	}
	return report.Row{Impl: impl, Scenario: "belief", N: n, Metrics: m}, err
}

// rate lets n agents write for a while.
func rate(ctx context.Context, write set, n int, storm time.Duration) (map[string]float64, error) {
	took := make([][]time.Duration, n)
	errs := make([]error, n)
	begun := time.Now()
	var agents sync.WaitGroup
	for i := range n {
		agents.Go(func() {
			for k := 0; time.Since(begun) < storm && errs[i] == nil; k++ {
				from := time.Now()
				errs[i] = write(ctx, i, k)
				took[i] = append(took[i], time.Since(from))
			}
		})
	}
	agents.Wait()
	elapsed := time.Since(begun)
	all := slices.Concat(took...)
	slices.Sort(all)
	fewest := len(took[0])
	for _, t := range took {
		fewest = min(fewest, len(t))
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return map[string]float64{
		"writes": float64(len(all)), "writes_per_s": float64(len(all)) / elapsed.Seconds(),
		"us_per_write": us(elapsed) / float64(len(all)), "fewest_per_s": float64(fewest) / elapsed.Seconds(),
		"p50_us": us(all[len(all)/2]), "p99_us": us(all[len(all)*99/100]),
	}, errors.Join(errs...)
}

// single lets one write after the other through, so that each has a commit of its own.
type single struct {
	store.Store
	mu *sync.Mutex
}

func (s single) Apply(ctx context.Context, f store.Fence, c []store.Cond, o []store.Op) (store.Rev, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.Apply(ctx, f, c, o)
}

func throughBook(ctx context.Context, dir string, n int, alone bool) (set, func() error, error) {
	db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"))
	if err != nil {
		return nil, nil, err
	}
	var s store.Store = db
	if alone {
		s = single{db, new(sync.Mutex)}
	}
	book, _, err := belief.Open(ctx, s)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	for i := range n {
		if _, err := book.Begin(ctx, path(i), belief.Life{Incarnation: 1, ID: path(i)}); err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
	}
	return func(ctx context.Context, i, k int) error {
		return book.Apply(ctx, belief.Step{Path: path(i), By: 1, Set: value.Named{"n": value.Value(strconv.Itoa(k))}})
	}, db.Close, nil
}

func path(i int) string { return fmt.Sprint("bench/a", i) }

// throughSocket starts a daemon of n agents, and writes in their names.
func throughSocket(coppice, dir string, n int) (set, func() error, error) {
	p, err := project.Start(coppice, dir, n)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, i, k int) error {
		step := belief.OwnChange{Set: value.Named{"n": value.Value(strconv.Itoa(k))}}
		_, err := belief.ChangeOwn.Call(ctx, p.Agents[i], step)
		return err
	}, p.End, nil
}
