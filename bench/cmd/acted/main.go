//go:build linux

// Command acted measures how soon an exit is acted on: an agent is killed by
// SIGKILL, and it takes so long until its supervisor has decided what comes of
// that (the time of the event agent.crashed), and until the first instruction
// of its successor. The patrol makes no round meanwhile (patrol_interval is
// a day), and n agents rest next to it. For os/exec, the floor, the decision is that
// Wait has returned.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/bench/internal/killtest"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	impl := flag.String("impl", "coppice-up", "coppice-up or os/exec")
	program := flag.String("program", "", "the built coppice")
	firstact := flag.String("firstact", "", "the built cmd/firstact")
	n := flag.Int("n", 0, "agents that rest next to it")
	rounds := flag.Int("rounds", 300, "ends")
	pause := flag.Duration("pause", 20*time.Millisecond, "pause before each")
	flag.Parse()
	if err := run(*impl, *program, *firstact, *n, *rounds, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "acted:", err)
		os.Exit(1)
	}
}

func run(impl, program, firstact string, n, rounds int, pause time.Duration) error {
	dir, err := os.MkdirTemp("", "acted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fifo, err := killtest.NewFIFO(dir)
	if err != nil {
		return err
	}
	defer fifo.Close()
	var k keeper
	switch impl {
	case "os/exec":
		k = &bare{argv: []string{firstact, fifo.Path}}
	case "coppice-up":
		k = &daemon{program: program, dir: dir, argv: []string{firstact, fifo.Path}, resting: n}
	default:
		return fmt.Errorf("%s is not known here", impl)
	}
	m, err := measure(k, fifo, rounds, pause)
	if err := errors.Join(err, k.down()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report.Row{Impl: impl, Scenario: "acted", N: n, Metrics: m})
}

// keeper starts something again that has ended.
type keeper interface {
	up() error
	// struck is called after each blow.
	struck() error
	// decided are the times at which it was decided what comes of each, of the clock on the wall.
	decided() ([]time.Time, error)
	down() error
}

// measure kills rounds incarnations.
func measure(k keeper, fifo *killtest.FIFO, rounds int, pause time.Duration) (map[string]float64, error) {
	if err := k.up(); err != nil {
		return nil, err
	}
	pid, _, err := fifo.Next(30 * time.Second)
	if err != nil {
		return nil, err
	}
	blows := make([]time.Time, rounds) // of the wall, as the events are
	renewed := make([]time.Duration, rounds)
	for i := range rounds {
		time.Sleep(pause)
		begun, err := killtest.Now()
		if err != nil {
			return nil, err
		}
		blows[i] = time.Now().Round(0)
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return nil, fmt.Errorf("kill %d: %w", pid, err)
		}
		if err := k.struck(); err != nil {
			return nil, err
		}
		next, at, err := fifo.Next(30 * time.Second)
		if err != nil {
			return nil, err
		}
		pid, renewed[i] = next, at-begun
	}
	times, err := k.decided()
	if err != nil {
		return nil, err
	}
	if len(times) != rounds {
		return nil, fmt.Errorf("%d ends, and %d decisions", rounds, len(times))
	}
	decisions := make([]time.Duration, rounds)
	for i, at := range times {
		if decisions[i] = at.Sub(blows[i]); decisions[i] < 0 {
			return nil, fmt.Errorf("end %d was decided upon %v before it came: has the clock been set?", i,
				-decisions[i])
		}
	}
	m := make(map[string]float64)
	for name, v := range map[string][]time.Duration{"decided": decisions, "renewed": renewed} {
		for quantile, us := range killtest.Metrics(v) {
			m[name+"_"+quantile] = us
		}
	}
	return m, nil
}

// bare is os/exec and nothing that supervises.
type bare struct {
	argv    []string
	running *exec.Cmd
	times   []time.Time
}

func (b *bare) up() error {
	b.running = exec.Command(b.argv[0], b.argv[1:]...)
	b.running.Stderr = os.Stderr
	return b.running.Start()
}

func (b *bare) struck() error {
	b.running.Wait() // it was killed
	b.times = append(b.times, time.Now().Round(0))
	return b.up()
}

func (b *bare) decided() ([]time.Time, error) { return b.times, nil }

func (b *bare) down() error {
	if b.running == nil || b.running.Process == nil {
		return nil
	}
	err := b.running.Process.Kill()
	b.running.Wait()
	return err
}

// daemon is coppice up.
type daemon struct {
	program, dir string
	argv         []string
	resting      int
}

func (d *daemon) up() error {
	quoted, err := json.Marshal(d.argv)
	if err != nil {
		return err
	}
	var toml strings.Builder
	fmt.Fprintf(&toml, "[project]\nname = \"bench\"\n\n[daemon]\npatrol_interval = "+
		"\"1d\"\nmax_restarts = \"unlimited\"\n\n"+
		"[[agent]]\nname = \"hot\"\ncommand = %s\nbackoff = \"none\"\n", quoted)
	for i := range d.resting {
		fmt.Fprintf(&toml, "\n[[agent]]\nname = \"a%d\"\ncommand = [\"sleep\", \"1000000\"]\n", i)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "coppice.toml"), []byte(toml.String()), 0o600); err != nil {
		return err
	}
	_, err = d.run("up", "-d")
	return err
}

func (*daemon) struck() error { return nil }

func (d *daemon) decided() (times []time.Time, err error) {
	out, err := d.run("events", "--type", "agent.crashed", "--path", "bench/hot", "--json")
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var e struct{ Time time.Time }
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("event %.200q: %w", line, err)
		}
		times = append(times, e.Time)
	}
	return times, nil
}

func (d *daemon) down() error {
	_, err := d.run("down")
	return err
}

func (d *daemon) run(args ...string) ([]byte, error) {
	cmd := exec.Command(d.program, args...)
	cmd.Dir = d.dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("coppice %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}
