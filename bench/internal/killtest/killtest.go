//go:build linux

// Package killtest measures how long an OS process is missing after SIGKILL:
// from the signal until the first instruction of its successor, which
// cmd/firstact reports through a FIFO. Whoever restarts it, bare os/exec or
// a supervisor in another process, is measured in the same way.
package killtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// FIFO is where incarnations of firstact announce themselves.
type FIFO struct {
	Path string
	file *os.File
}

// NewFIFO makes one in dir.
func NewFIFO(dir string) (*FIFO, error) {
	path := filepath.Join(dir, "firstact.fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("mkfifo %s: %w", path, err)
	}
	// Open for both, so that neither side waits for the other and the end of
	// one writer is no end of file.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &FIFO{Path: path, file: f}, nil
}

// Close closes the FIFO; the file goes with its directory.
func (f *FIFO) Close() error { return f.file.Close() }

// Next waits for the next incarnation: its pid, and CLOCK_MONOTONIC at its first act.
func (f *FIFO) Next(within time.Duration) (pid int, at time.Duration, err error) {
	if err := f.file.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, 0, err
	}
	var b [24]byte
	if _, err := io.ReadFull(f.file, b[:]); err != nil {
		return 0, 0, fmt.Errorf("no incarnation announced itself within %v: %w", within, err)
	}
	word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[i:])) }
	return int(word(16)), time.Duration(word(0)*1e9 + word(8)), nil
}

// Now is CLOCK_MONOTONIC, the same for all processes of a machine.
func Now() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("clock_gettime: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// Measure kills rounds incarnations, the first of which is pid, with pause
// before each. renew is called right after the signal and brings the
// successor up; it is nil where somebody else does. The last incarnation is
// left running and its pid returned.
func Measure(f *FIFO, pid, rounds int, pause time.Duration, renew func() error) ([]time.Duration, int, error) {
	v := make([]time.Duration, 0, rounds)
	for range rounds {
		time.Sleep(pause)
		killed, err := Now()
		if err != nil {
			return nil, pid, err
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return nil, pid, fmt.Errorf("kill %d: %w", pid, err)
		}
		if renew != nil {
			if err := renew(); err != nil {
				return nil, pid, err
			}
		}
		next, at, err := f.Next(10 * time.Second)
		if err != nil {
			return nil, pid, err
		}
		if next == pid || at < killed {
			return nil, next, fmt.Errorf("two incarnations at once: %d announced itself before %d was killed", next, pid)
		}
		pid = next
		v = append(v, at-killed)
	}
	return v, pid, nil
}

// Metrics are the quantiles of v in microseconds.
func Metrics(v []time.Duration) map[string]float64 {
	v = slices.Sorted(slices.Values(v))
	at := func(q float64) float64 {
		return math.Round(float64(v[min(len(v)-1, int(q*float64(len(v))))]) / 1e3)
	}
	return map[string]float64{"p50_us": at(.50), "p99_us": at(.99), "max_us": at(1)}
}
