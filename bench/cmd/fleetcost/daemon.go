//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/bench/internal/census"
	"github.com/coppice-dev/coppice/bench/internal/killtest"
)

// daemon is coppice up.
type daemon struct {
	program, dir string
	starts       *command
}

func (d *daemon) up() (err error) {
	d.starts, err = start(d.dir, d.program, "up", "-d")
	return err
}

func (d *daemon) alive() error {
	select {
	case <-d.starts.ended:
		return d.starts.err
	default:
		return nil
	}
}

func (d *daemon) pid() (int, error) {
	if err := d.starts.wait(); err != nil {
		return 0, err
	}
	var status struct{ Controller struct{ PID int } }
	err := d.ask(&status, "status")
	return status.Controller.PID, err
}

func (d *daemon) down() error {
	c, err := start(d.dir, d.program, "down")
	if err != nil {
		return err
	}
	return c.wait()
}

// agents returns the paths of all n agents by their process ids, as soon as the daemon knows that
// all of them run.
func (d *daemon) agents(n int) (map[int]string, error) {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var nodes []struct {
			Path, Kind, State string
			PID               int
		}
		if err := d.ask(&nodes, "ps"); err != nil {
			return nil, err
		}
		paths := map[int]string{}
		for _, node := range nodes {
			if node.Kind == "agent" && node.State == "running" {
				paths[node.PID] = node.Path
			}
		}
		if len(paths) == n {
			return paths, nil
		}
		if time.Since(begun) > limit {
			return nil, fmt.Errorf("the daemon has %d agents that run after %v, want %d", len(paths), limit, n)
		}
	}
}

// ask reads the JSON that a command prints.
func (d *daemon) ask(answer any, command string) error {
	out, err := d.run(command)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("coppice %s --json: %w", command, err)
	}
	return nil
}

func (d *daemon) run(args ...string) ([]byte, error) {
	cmd := exec.Command(d.program, append(args, "--json")...)
	cmd.Dir = d.dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("coppice %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// killOne kills agents one after the other, each when the last one runs again, and measures how
// long it takes until it is decided what follows: the time of the event. All run again when it
// returns.
func (d *daemon) killOne(c *census.Census, n, kills int, m map[string]float64) error {
	begun := map[string][]time.Time{} // of the wall, as the events are
	for left := kills; left > 0; {
		paths, err := d.agents(n)
		if err != nil {
			return err
		}
		victims := c.Agents()[:min(n, left)]
		for _, pid := range victims {
			path := paths[pid]
			if path == "" {
				return fmt.Errorf("process %d is no agent of the daemon", pid)
			}
			begun[path] = append(begun[path], time.Now().Round(0))
			if err := c.Kill(pid); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond) // it is decided by then: counting delays nothing
			if err := c.Await(n, limit, d.alive); err != nil {
				return err
			}
		}
		left -= len(victims)
	}
	out, err := d.run("events", "--type", "agent.crashed")
	if err != nil {
		return err
	}
	var decisions []time.Duration
	for line := range bytes.Lines(out) {
		var e struct {
			Time time.Time
			Path string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("event %.200q: %w", line, err)
		}
		if len(begun[e.Path]) == 0 {
			return fmt.Errorf("%s has crashed more often than it was killed", e.Path)
		}
		took := e.Time.Sub(begun[e.Path][0])
		begun[e.Path] = begun[e.Path][1:]
		if took < 0 {
			return fmt.Errorf("%s has crashed %v before it was killed: has the clock been set?", e.Path, -took)
		}
		decisions = append(decisions, took)
	}
	if len(decisions) != kills {
		return fmt.Errorf("%d kills, and %d events", kills, len(decisions))
	}
	for quantile, us := range killtest.Metrics(decisions) {
		m["decided_"+quantile] = us
	}
	return nil
}

// adopt kills the daemon and measures how long it takes until the next one has found all agents
// again, as the same processes.
func (d *daemon) adopt(n int) (time.Duration, error) {
	before, err := d.agents(n)
	if err != nil {
		return 0, err
	}
	pid, err := d.pid()
	if err != nil {
		return 0, err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return 0, fmt.Errorf("killing the daemon: %w", err)
	}
	begun := time.Now()
	if err := d.up(); err != nil {
		return 0, err
	}
	if err := d.starts.wait(); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, err := d.agents(n)
	if err != nil {
		return 0, err
	}
	for pid, path := range before {
		if after[pid] != path {
			return 0, fmt.Errorf("%s was process %d, which is %q", path, pid, after[pid])
		}
	}
	return took, nil
}
