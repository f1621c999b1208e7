//go:build linux

// Command agentkill measures what it takes a supervisor in a process of its
// own to replace an agent that has died: the same program, the same death and
// the same clock as cmd/execfloor. Each supervisor has the shortest settings
// that it knows.
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
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/killtest"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

// keeper is a program that keeps an agent running.
type keeper struct {
	file string // of its configuration
	text func(argv []string) string
	args []string
}

func keepers() map[string]keeper {
	return map[string]keeper{
		"coppice-run": {"coppice.toml", project, []string{"run"}},
		"coppice-up":  {"coppice.toml", project, []string{"up"}},
		// It waits for a second at least.
		"process-compose": {"compose.yaml", func(argv []string) string {
			return fmt.Sprintf("version: \"0.5\"\nprocesses:\n  hot:\n    command: \"exec %s\"\n    "+
				"availability:\n      restart: always\n", strings.Join(argv, " "))
		}, []string{"up", "-f", "compose.yaml", "-t=false", "--no-server"}},
		"supervisord": {"supervisord.conf", func(argv []string) string {
			return fmt.Sprintf("[supervisord]\nnodaemon=true\n[program:hot]\ncommand=%s\nautorestart=true\n"+
				"startsecs=0\nstartretries=1000000\n", strings.Join(argv, " "))
		}, []string{"-c", "supervisord.conf"}},
	}
}

// project is a fleet of one agent that is restarted at once and without end,
// as far as a bench can tell.
func project(argv []string) string {
	quoted, err := json.Marshal(argv)
	if err != nil {
		panic(err) // strings
	}
	return fmt.Sprintf(`[project]
name = "bench"

[supervision]
max_restarts = 1000000
within_seconds = 1

[[agent]]
name = "hot"
command = %s
restart = "always"
backoff = "none"
`, quoted)
}

func main() {
	impl := flag.String("impl", "coppice-run", "who keeps the agent running")
	program := flag.String("program", "", "its executable")
	firstact := flag.String("firstact", "", "the built cmd/firstact")
	scenario := flag.String("scenario", "exec", "exec: SIGKILL; exit: it ends by itself")
	rounds := flag.Int("rounds", 300, "ends")
	pause := flag.Duration("pause", 5*time.Millisecond, "pause before each")
	flag.Parse()
	if err := run(*impl, *program, *firstact, *scenario, *rounds, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "agentkill:", err)
		os.Exit(1)
	}
}

func run(impl, program, firstact, scenario string, rounds int, pause time.Duration) error {
	k, ok := keepers()[impl]
	if !ok {
		return fmt.Errorf("%s is not known here", impl)
	}
	dir, err := os.MkdirTemp("", "agentkill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fifo, err := killtest.NewFIFO(dir)
	if err != nil {
		return err
	}
	defer fifo.Close()
	death, err := killtest.NewDeath(scenario, fifo)
	if err != nil {
		return err
	}
	defer death.Close()
	text := k.text(append([]string{firstact}, death.Args()...))
	if err := os.WriteFile(filepath.Join(dir, k.file), []byte(text), 0o600); err != nil {
		return err
	}

	stop, err := start(program, k.args, dir)
	if err != nil {
		return err
	}
	pid, _, err := fifo.Next(10 * time.Second)
	if err != nil {
		return errors.Join(err, stop())
	}
	v, _, err := killtest.Measure(fifo, death, pid, rounds, pause, nil)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report.Row{
		Impl: impl, Scenario: scenario, N: 1, Metrics: killtest.Metrics(v),
	})
}

// start runs the program in dir. The function it returns stops that with
// SIGTERM, and with SIGKILL if it has not ended 10 s later. A firstact left
// behind would end by itself.
func start(program string, args []string, dir string) (stop func() error, err error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() error {
		// That it is gone already shows in what Wait says.
		early := cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			if early != nil {
				return fmt.Errorf("%s has ended too early: %v\n%s", program, cmd.ProcessState, tail(out.Bytes()))
			}
			return nil
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
			return fmt.Errorf("%s did not end within 10s of SIGTERM\n%s", program, tail(out.Bytes()))
		}
	}, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
