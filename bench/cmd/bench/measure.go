package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/bench/internal/report"
)

// measure asks all questions, c.reps times. Repetitions are the outer loop: a
// noisy minute hurts everybody, and no one's median.
func measure(ctx context.Context, c config, p programs, out io.Writer) ([]report.Row, error) {
	var rows []report.Row
	enc := json.NewEncoder(out)
	for rep := range c.reps {
		jobs := matrix(c, p, rep)
		for i, j := range jobs {
			load := loadAverage()
			row, err := ask(ctx, j)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				row = report.Row{Impl: j.impl, Scenario: j.scenario, N: j.n, Error: err.Error()}
			}
			row.Rep, row.Load = rep, load
			if err := enc.Encode(row); err != nil {
				return nil, err
			}
			rows = append(rows, row)
			fmt.Fprintf(os.Stderr, "%d/%d %3d/%d %s %s n=%d %s\n", rep+1, c.reps, i+1, len(jobs), j.scenario, j.impl,
				j.n, row.Error+row.Note)
		}
	}
	return rows, nil
}

// ask runs j in a process group of its own, so that nothing of it is left.
func ask(ctx context.Context, j job) (report.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, j.within)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.argv[0], j.argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return report.Row{}, fmt.Errorf("no answer within %v", j.within)
	}
	if err != nil {
		return report.Row{}, fmt.Errorf("%w: %s", err, firstLines(errs.String()))
	}
	return report.Parse(out.Bytes())
}

func firstLines(s string) string {
	lines := strings.SplitN(strings.TrimSpace(s), "\n", 6)
	return strings.Join(lines[:min(5, len(lines))], " | ")
}

// loadAverage is the machine's over the last minute; 0 where it is unknown.
func loadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}
