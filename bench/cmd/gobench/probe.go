package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// errCrash is the error with which a hot child fails or panics.
var errCrash = errors.New("crash")

// epoch makes nanos small and monotonic.
var epoch = time.Now()

func nanos() int64 { return int64(time.Since(epoch)) + 1 }

// probe receives the reports of the children of a fleet. Each idle child counts
// itself in started as its first act, and in stopped as its last.
type probe struct {
	started, stopped atomic.Int64

	runs     atomic.Int64 // incarnations of the hot child
	failing  atomic.Int64 // as many of its incarnations fail at once
	crashAt  atomic.Int64 // time of its last failure, in nanos
	restarts chan int64   // latency: ns from failure to running
}

// hotStarted is the first act of each incarnation of the hot child. It
// reports whether that incarnation shall fail at once.
func (p *probe) hotStarted() bool {
	now := nanos()
	run := p.runs.Add(1)
	if at := p.crashAt.Swap(0); at != 0 && p.restarts != nil {
		p.restarts <- now - at
	}
	return run <= p.failing.Load()
}

// hotCrashes is the hot child's last act before it fails.
func (p *probe) hotCrashes() { p.crashAt.Store(nanos()) }

// waitFor polls cond, 5 times a millisecond, so that the waiting costs the
// library under test next to nothing.
func waitFor(what string, within time.Duration, cond func() bool) error {
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not seen within %v", what, within)
		}
		time.Sleep(200 * time.Microsecond)
	}
	return nil
}

// memory returns the memory of the process after two forced collections: the second
// one frees what finalizers and pools kept through the first.
type memory struct{ rss, heapStack int64 }

func readMemory() (memory, error) {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return memory{}, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return memory{}, fmt.Errorf("/proc/self/statm: %q", b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return memory{}, fmt.Errorf("/proc/self/statm: %w", err)
	}
	return memory{rss: pages * int64(os.Getpagesize()), heapStack: int64(ms.HeapAlloc + ms.StackInuse)}, nil
}
