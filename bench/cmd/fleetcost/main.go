//go:build linux

// Command fleetcost measures what a fleet of agents that do nothing costs: how
// long it takes to start them, what the daemon and the shims use while nothing
// happens, and how long a new daemon takes to find them all again after the old
// one got SIGKILL.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	coppice := flag.String("coppice", "", "the built coppice")
	n := flag.Int("n", 1000, "agents")
	rest := flag.Duration("rest", 15*time.Second, "how long the fleet is watched while nothing happens")
	flag.Parse()
	row, err := measure(context.Background(), *coppice, *n, *rest)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(row)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleetcost:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, coppice string, n int, rest time.Duration) (row report.Row, err error) {
	dir, err := os.MkdirTemp("", "fleetcost-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	f := fleet{coppice: coppice, dir: dir}
	var toml strings.Builder
	toml.WriteString("[project]\nname = \"bench\"\n")
	for i := range n {
		fmt.Fprintf(&toml, "\n[[agent]]\nname = \"a%d\"\ncommand = [\"sleep\", \"1000000\"]\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "coppice.toml"), []byte(toml.String()), 0o600); err != nil {
		return row, err
	}
	defer func() {
		if _, e := f.run(context.WithoutCancel(ctx), "down"); err == nil {
			err = e
		}
	}()

	m := map[string]float64{}
	begun := time.Now()
	if _, err := f.run(ctx, "up", "-d"); err != nil {
		return row, err
	}
	m["up_s"] = time.Since(begun).Seconds()
	before, err := f.agents(ctx, n)
	if err != nil {
		return row, err
	}
	daemon, err := f.daemon(ctx)
	if err != nil {
		return row, err
	}
	if err := f.atRest(daemon, before, rest, m); err != nil {
		return row, err
	}

	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		return row, err
	}
	begun = time.Now()
	if _, err := f.run(ctx, "up", "-d"); err != nil {
		return row, err
	}
	m["adopt_s"] = time.Since(begun).Seconds()
	after, err := f.agents(ctx, n)
	if err != nil {
		return row, err
	}
	for path, pid := range before {
		if after[path] != pid {
			return row, fmt.Errorf("%s was process %d and is %d", path, pid, after[path])
		}
	}
	return report.Row{Impl: "coppice-up", Scenario: "fleet", N: n, Metrics: m}, nil
}

type fleet struct{ coppice, dir string }

func (f fleet) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, f.coppice, args...)
	cmd.Dir = f.dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("coppice %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// agents are the pids of all n agents, which must run.
func (f fleet) agents(ctx context.Context, n int) (map[string]int, error) {
	out, err := f.run(ctx, "ps", "--json")
	if err != nil {
		return nil, err
	}
	var nodes []struct {
		Path, Kind, State string
		PID               int
	}
	if err := json.Unmarshal(out, &nodes); err != nil {
		return nil, err
	}
	pids := map[string]int{}
	for _, node := range nodes {
		if node.Kind != "agent" {
			continue
		}
		if node.State != "running" {
			return nil, fmt.Errorf("%s is %s", node.Path, node.State)
		}
		pids[node.Path] = node.PID
	}
	if len(pids) != n {
		return nil, fmt.Errorf("%d agents run, want %d", len(pids), n)
	}
	return pids, nil
}

func (f fleet) daemon(ctx context.Context) (pid int, err error) {
	out, err := f.run(ctx, "status", "--json")
	if err != nil {
		return 0, err
	}
	var status struct{ Controller struct{ PID int } }
	err = json.Unmarshal(out, &status)
	return status.Controller.PID, err
}

// atRest measures the daemon, and the shims of the agents.
func (f fleet) atRest(daemon int, agents map[string]int, d time.Duration, m map[string]float64) error {
	var shims []int
	for _, pid := range agents {
		st, err := stat(pid)
		if err != nil {
			return err
		}
		shim, err := strconv.Atoi(st[1])
		if err != nil {
			return err
		}
		shims = append(shims, shim)
	}
	used := func() (own, theirs float64, err error) {
		if own, err = cpu(daemon); err != nil {
			return 0, 0, err
		}
		for _, pid := range shims {
			t, err := cpu(pid)
			if err != nil {
				return 0, 0, err
			}
			theirs += t
		}
		return own, theirs, nil
	}
	own, theirs, err := used()
	if err != nil {
		return err
	}
	begun := time.Now()
	time.Sleep(d) // nothing happens: that is what is measured
	own2, theirs2, err := used()
	if err != nil {
		return err
	}
	seconds := time.Since(begun).Seconds()
	m["daemon_cpu_pct"] = 100 * (own2 - own) / seconds
	m["shims_cpu_pct"] = 100 * (theirs2 - theirs) / seconds

	rss, err := memory(daemon, "/status", "VmRSS:")
	if err != nil {
		return err
	}
	m["daemon_rss_mb"] = rss / 1024
	var sum, most float64
	for _, pid := range shims {
		pss, err := memory(pid, "/smaps_rollup", "Pss:")
		if err != nil {
			return err
		}
		sum, most = sum+pss, max(most, pss)
	}
	m["shim_pss_mb"], m["shim_pss_max_mb"] = sum/float64(len(shims))/1024, most/1024
	return nil
}

// stat are the fields of /proc/PID/stat after the name, the state first.
func stat(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 15 {
		return nil, fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	return fields, nil
}

// ticks is USER_HZ, which is 100 on all that Go runs on.
const ticks = 100

// cpu is the processor time that a process has used, in seconds.
func cpu(pid int) (float64, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks, errors.Join(err1, err2)
}

// memory reads a line such as "Pss: 123 kB" of a file of a process.
func memory(pid int, file, name string) (kB float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d%s", pid, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d%s has no %s", pid, file, name)
}
