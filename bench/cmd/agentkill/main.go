//go:build linux

// Command agentkill measures what it takes `coppice run` to replace an agent
// that was killed: the same program, the same signal and the same clock as
// cmd/execfloor, with the supervisor in a process of its own.
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
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/killtest"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

// project is a fleet of one agent that is restarted at once and without end,
// as far as a bench can tell.
const project = `[project]
name = "bench"

[supervision]
max_restarts = 1000000
within_seconds = 1

[[agent]]
name = "hot"
command = [%q, %q]
restart = "permanent"
backoff = "none"
`

func main() {
	coppice := flag.String("coppice", "", "the built coppice")
	firstact := flag.String("firstact", "", "the built cmd/firstact")
	rounds := flag.Int("rounds", 300, "kills")
	pause := flag.Duration("pause", 5*time.Millisecond, "pause before each")
	flag.Parse()
	if err := run(*coppice, *firstact, *rounds, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "agentkill:", err)
		os.Exit(1)
	}
}

func run(coppice, firstact string, rounds int, pause time.Duration) error {
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
	toml := fmt.Sprintf(project, firstact, fifo.Path)
	if err := os.WriteFile(filepath.Join(dir, "coppice.toml"), []byte(toml), 0o600); err != nil {
		return err
	}

	stop, err := start(coppice, dir)
	if err != nil {
		return err
	}
	pid, _, err := fifo.Next(10 * time.Second)
	if err != nil {
		return errors.Join(err, stop())
	}
	v, _, err := killtest.Measure(fifo, pid, rounds, pause, nil)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report.Row{
		Impl: "coppice-run", Scenario: "exec", N: 1, Metrics: killtest.Metrics(v),
	})
}

// start runs `coppice run` in dir. The function it returns stops that with
// SIGTERM, and with SIGKILL if it has not ended 10 s later. A firstact left
// behind would end by itself.
func start(coppice, dir string) (stop func() error, err error) {
	cmd := exec.Command(coppice, "run")
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
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code != 0 && code != 143 {
				return fmt.Errorf("coppice run: %v\n%s", cmd.ProcessState, tail(out.Bytes()))
			}
			return nil
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
			return fmt.Errorf("coppice run did not end within 10s of SIGTERM\n%s", tail(out.Bytes()))
		}
	}, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
