//go:build linux

// Package killtest measures how long an OS process is missing after it was
// killed or has ended by itself: from the signal, or what it ends at, until the
// first instruction of its successor, which cmd/firstact reports through a FIFO. What restarts it, bare os/exec or
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

// FIFO receives the announcements of firstact incarnations.
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

// A Death is how an incarnation is ended.
type Death struct {
	trigger *os.File // nil: SIGKILL
	args    []string // for firstact
}

// NewDeath makes one of the ways to die: "exec" is SIGKILL, "exit" is that the
// program ends by itself, as a failure. The scenarios are named so.
func NewDeath(scenario string, f *FIFO) (*Death, error) {
	d := &Death{args: []string{f.Path}}
	switch scenario {
	case "exec":
		return d, nil
	case "exit":
		path := filepath.Join(filepath.Dir(f.Path), "trigger.fifo")
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return nil, fmt.Errorf("mkfifo %s: %w", path, err)
		}
		trigger, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		d.trigger, d.args = trigger, append(d.args, path)
		return d, nil
	}
	return nil, fmt.Errorf("there is no scenario %q", scenario)
}

// Args are the arguments of firstact.
func (d *Death) Args() []string { return d.args }

// Close removes nothing: the files go with their directory.
func (d *Death) Close() {
	if d.trigger != nil {
		d.trigger.Close()
	}
}

func (d *Death) strike(pid int) error {
	if d.trigger != nil {
		_, err := d.trigger.Write([]byte{0})
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}

// enough bounds a Measure: who restarts once in a second is known by then.
const enough = 20 * time.Second

// Measure ends rounds incarnations, the first of which is pid, with pause
// before each; fewer if that takes long. renew is called right after the blow
// and brings the successor up; it is nil where somebody else does. The last
// incarnation is left running and its pid returned.
func Measure(f *FIFO, d *Death, pid, rounds int, pause time.Duration, renew func() error) ([]time.Duration, int,
	error) {
	v := make([]time.Duration, 0, rounds)
	began := time.Now()
	for len(v) < rounds && time.Since(began) < enough {
		time.Sleep(pause)
		struck, err := Now()
		if err != nil {
			return nil, pid, err
		}
		if err := d.strike(pid); err != nil {
			return nil, pid, err
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
		if next == pid || at < struck {
			return nil, next, fmt.Errorf("two incarnations at once: %d announced itself before %d was ended", next, pid)
		}
		pid = next
		v = append(v, at-struck)
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
