//go:build linux

// Command followcost measures what it costs to follow idle agents with a terminal by the files of their sessions, next
// to the files of others, and how long it takes until a new session is found. The floor looks at all files with one
// walk for all agents.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
	"github.com/coppice-dev/coppice/internal/agentcli"
)

func main() {
	o := options{}
	flag.StringVar(&o.impl, "impl", "", "raw-walk or coppice-calls")
	flag.StringVar((*string)(&o.cli), "cli", string(agentcli.Claude), "claude or codex")
	flag.IntVar(&o.files, "n", 10_000, "files of other sessions, all newer than the agents")
	flag.IntVar(&o.agents, "agents", 100, "agents that are followed")
	flag.IntVar(&o.changes, "changes", 100, "files that are appended to each second, when not idle")
	flag.IntVar(&o.sessions, "sessions", 20, "sessions that agents begin, one after the other")
	flag.DurationVar(&o.time, "d", 5*time.Second, "how long processor time is measured, idle and not")
	flag.DurationVar(&o.warmUp, "warmup", 8*time.Second, "how long the files may be read before")
	writes := flag.String("write", "", "append to the files of a home until killed; used by the program itself")
	flag.Parse()
	var err error
	if *writes != "" {
		err = appendTo(o, *writes)
	} else {
		var row report.Row
		if row, err = measure(o); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(row)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "followcost:", err)
		os.Exit(1)
	}
}

type options struct {
	impl                             string
	cli                              agentcli.CLI
	files, agents, changes, sessions int
	warmUp, time                     time.Duration
}

// followers follow agents. Each agent works in a directory of its own, which has no session yet.
type followers interface {
	// follow begins.
	follow()
	// found receives each agent whose session was found.
	found() <-chan int
	// end ends all of it.
	end()
}

func measure(o options) (row report.Row, err error) {
	home, err := os.MkdirTemp("", "followcost-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(home)
	files, f, err := prepare(o, home)
	if err != nil {
		return row, err
	}
	if err := files.others(o.files); err != nil {
		return row, err
	}
	f.follow()
	defer f.end()
	time.Sleep(o.warmUp)
	m := map[string]float64{"idle_cpu_pct": processor(o.time)}
	stop, err := startWriter(o, home)
	if err != nil {
		return row, err
	}
	m["busy_cpu_pct"] = processor(o.time)
	from, began := used(), time.Now()
	took, err := find(o, files, f)
	m["begin_cpu_pct"] = percent(used()-from, time.Since(began))
	if err = errors.Join(err, stop()); err != nil {
		return row, err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	m["find_p50_ms"], m["find_max_ms"] = ms(took[len(took)/2]), ms(took[len(took)-1])
	m["rss_mb"] = resident()
	return report.Row{Impl: o.impl, Scenario: "follow-" + string(o.cli), N: o.files, Metrics: m}, nil
}

// beginPause is the time between the beginnings of two sessions.
const beginPause = 233 * time.Millisecond

// find has agents begin sessions, and returns how long it took to find each, in order.
func find(o options, files *house, f followers) (took []time.Duration, err error) {
	began := make([]time.Time, o.sessions)
	next := time.NewTicker(beginPause)
	defer next.Stop()
	for i := 0; len(took) < o.sessions; {
		select {
		case <-next.C:
			if i == o.sessions {
				next.Stop()
				continue
			}
			if err := files.begin(i); err != nil {
				return nil, err
			}
			began[i] = time.Now()
			i++
		case agent := <-f.found():
			took = append(took, time.Since(began[agent]))
		case <-time.After(time.Minute + 30*time.Second):
			return nil, fmt.Errorf("of %d sessions %d were found", o.sessions, len(took))
		}
	}
	slices.Sort(took)
	return took, nil
}

// used returns the processor time that this process has used.
func used() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func percent(used, of time.Duration) float64 { return 100 * used.Seconds() / of.Seconds() }

// processor returns the share of a processor that this process uses for a while.
func processor(d time.Duration) float64 {
	from, began := used(), time.Now()
	time.Sleep(d)
	return percent(used()-from, time.Since(began))
}

// resident returns the largest resident size of this process so far, in MB.
func resident() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return float64(r.Maxrss) / 1000
}

// startWriter starts a process that appends to the files of a home.
func startWriter(o options, home string) (stop func() error, err error) {
	if o.files == 0 || o.changes == 0 {
		return func() error { return nil }, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-write", home, "-cli", string(o.cli), "-n", fmt.Sprint(o.files),
		"-changes", fmt.Sprint(o.changes))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		err := cmd.Process.Kill()
		if state, _ := cmd.Process.Wait(); state != nil && state.Exited() {
			return fmt.Errorf("the writer has ended: %v", state)
		}
		return err
	}, nil
}

// appendTo appends to one file after the other, until killed.
func appendTo(o options, home string) error {
	files, err := newHouse(o, home)
	if err != nil {
		return err
	}
	next := time.NewTicker(time.Second / time.Duration(o.changes))
	defer next.Stop()
	for i := 0; ; i = (i + 1) % o.files {
		<-next.C
		if err := files.write(i); err != nil {
			return err
		}
	}
}
