//go:build linux

// Command fleetcost measures what a fleet of agents that do nothing costs with one of several
// supervisors: how long it takes to start all, to start one or half of them again that were
// killed, and to stop all; what the processes that supervise use while nothing happens; and how
// long a new daemon of coppice takes to find all agents again after the old one got SIGKILL.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/census"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

// limit bounds each step. A fleet that takes longer is too large for its supervisor.
const limit = 2 * time.Minute

func main() {
	impl := flag.String("impl", "coppice-up", "coppice-up, process-compose, supervisord or raw")
	program := flag.String("program", "", "its executable; not for raw")
	n := flag.Int("n", 1000, "agents")
	rest := flag.Duration("rest", 15*time.Second, "how long the fleet is watched while nothing happens")
	kills := flag.Int("kills", 200, "single agents that are killed, coppice only")
	kept := flag.Int("keep", 0, "be the supervisor raw of so many processes, whose command line are the arguments")
	flag.Parse()
	if err := run(*impl, *program, *n, *kills, *kept, *rest); err != nil {
		fmt.Fprintln(os.Stderr, "fleetcost:", err)
		os.Exit(1)
	}
}

func run(impl, program string, n, kills, kept int, rest time.Duration) error {
	if kept > 0 {
		return keep(kept, flag.Args())
	}
	if impl == "raw" {
		var err error
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	row, err := fleet(impl, program, n, kills, rest)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(row)
}

// fleet measures one fleet. A peer that does not reach so far is no error: the row has what was
// measured until then, and why there is no more.
func fleet(impl, program string, n, kills int, rest time.Duration) (report.Row, error) {
	row := report.Row{Impl: impl, Scenario: "fleet", N: n, Metrics: map[string]float64{}}
	dir, err := os.MkdirTemp("", "fleetcost-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	c, err := census.New()
	if err != nil {
		return row, err
	}
	k, err := newKeeper(impl, program, dir, n, c.Agent)
	if err != nil {
		return row, err
	}
	err = measure(k, c, n, kills, rest, row.Metrics)
	if err != nil && impl != "coppice-up" {
		fmt.Fprintln(os.Stderr, "fleetcost:", err)
		note, _, _ := strings.Cut(err.Error(), "\n") // without what it has written
		row.Note, err = note, nil
	}
	return row, err
}

// measure puts what it measures into m, step by step, and leaves nothing running.
func measure(k keeper, c *census.Census, n, kills int, rest time.Duration, m map[string]float64) (err error) {
	lead := 0
	defer func() {
		if err != nil {
			// What is wrong is said already; all that matters is that nothing is left.
			_ = k.down()
			err = errors.Join(err, c.KillAll(lead))
		}
	}()
	begun := time.Now()
	if err := k.up(); err != nil {
		return err
	}
	if err := c.Await(n, limit, k.alive); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	m["start_s"] = time.Since(begun).Seconds()
	if lead, err = k.pid(); err != nil {
		return err
	}
	if err := atRest(k, c, lead, rest, m); err != nil {
		return fmt.Errorf("at rest: %w", err)
	}

	d, isDaemon := k.(*daemon)
	if isDaemon {
		if err := d.killOne(c, n, kills, m); err != nil {
			return fmt.Errorf("one killed: %w", err)
		}
	}
	victims := c.Agents()[:(n+1)/2]
	begun = time.Now()
	for _, pid := range victims {
		if err := c.Kill(pid); err != nil {
			return err
		}
	}
	if err := c.Await(n, limit, k.alive); err != nil {
		return fmt.Errorf("half killed: %w", err)
	}
	m["half_s"] = time.Since(begun).Seconds()
	if isDaemon {
		took, err := d.adopt(n)
		if err != nil {
			return fmt.Errorf("daemon killed: %w", err)
		}
		m["adopt_s"] = took.Seconds()
	}

	begun = time.Now()
	if err := k.down(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	m["stop_s"] = time.Since(begun).Seconds()
	if left, err := c.Count(); left > 0 || err != nil {
		return fmt.Errorf("%d agents are left after all were stopped: %w", left, err)
	}
	return nil
}

// atRest measures what all that supervises uses while nothing happens, and how much of that is
// the daemon of coppice.
func atRest(k keeper, c *census.Census, lead int, rest time.Duration, m map[string]float64) error {
	all, err := c.Supervisors(lead)
	if err != nil {
		return err
	}
	parts := map[string][]int{"rest": all}
	if _, ok := k.(*daemon); ok {
		parts["daemon"] = []int{lead}
	}
	before := map[string]time.Duration{}
	for part, pids := range parts {
		if before[part], err = census.CPU(pids); err != nil {
			return err
		}
	}
	begun := time.Now()
	time.Sleep(rest) // nothing happens: that is what is measured
	took := time.Since(begun)
	for part, pids := range parts {
		after, err := census.CPU(pids)
		if err != nil {
			return err
		}
		m[part+"_cpu_pct"] = 100 * (after - before[part]).Seconds() / took.Seconds()
	}
	for part, pids := range parts {
		if m[part+"_rss_mb"], m[part+"_pss_mb"], err = census.Memory(pids); err != nil {
			return err
		}
	}
	return nil
}
