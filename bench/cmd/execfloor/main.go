//go:build linux

// Command execfloor measures what it takes to replace a killed process with
// bare os/exec and nothing that supervises: Kill, Wait, Start. It is the
// floor for cmd/agentkill.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/killtest"
	"github.com/coppice-dev/coppice/bench/internal/report"
)

func main() {
	firstact := flag.String("firstact", "", "the built cmd/firstact")
	scenario := flag.String("scenario", "exec", "exec: SIGKILL; exit: it ends by itself")
	rounds := flag.Int("rounds", 300, "ends")
	pause := flag.Duration("pause", 5*time.Millisecond, "pause before each")
	flag.Parse()
	if err := run(*scenario, *firstact, *rounds, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "execfloor:", err)
		os.Exit(1)
	}
}

func run(scenario, firstact string, rounds int, pause time.Duration) error {
	dir, err := os.MkdirTemp("", "execfloor-")
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

	var running *exec.Cmd
	start := func() error {
		running = exec.Command(firstact, death.Args()...)
		running.Stderr = os.Stderr
		return running.Start()
	}
	wait := func() error {
		err := running.Wait()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return nil // killed, as intended
		}
		return err
	}
	if err := start(); err != nil {
		return err
	}
	defer func() {
		running.Process.Kill()
		wait()
	}()
	pid, _, err := fifo.Next(10 * time.Second)
	if err != nil {
		return err
	}
	v, _, err := killtest.Measure(fifo, death, pid, rounds, pause, func() error {
		if err := wait(); err != nil {
			return err
		}
		return start()
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report.Row{
		Impl: "os/exec", Scenario: scenario, N: 1, Metrics: killtest.Metrics(v),
	})
}
