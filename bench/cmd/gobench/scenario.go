package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"
)

// options are the flags; zero means the scenario's own default.
type options struct {
	n           int
	storm       time.Duration
	rounds      int
	pause       time.Duration
	heapProfile string
}

type metrics = map[string]float64

// scenarios are the questions.
func scenarios() map[string]func(fleet, *probe, options) (metrics, error) {
	return map[string]func(fleet, *probe, options) (metrics, error){
		"spawn": spawn, "restart": restart, "latency": latency, "rest": rest, "lost": lost,
	}
}

const patience = 2 * time.Minute

// spawn starts n children and stops them again: seconds of both, bytes of each child.
func spawn(f fleet, p *probe, o options) (metrics, error) {
	before, err := readMemory()
	if err != nil {
		return nil, err
	}
	n := float64(o.n)
	t0 := time.Now()
	if err := f.start(o.n, false); err != nil {
		return nil, err
	}
	m := metrics{"api_s": time.Since(t0).Seconds()}
	if err := waitFor("start of all", patience, func() bool { return p.started.Load() >= int64(o.n) }); err != nil {
		return nil, err
	}
	m["spawn_s"] = time.Since(t0).Seconds()
	after, err := readMemory()
	if err != nil {
		return nil, err
	}
	m["rss_per_child"] = math.Round(float64(after.rss-before.rss) / n)
	m["heap_stack_per_child"] = math.Round(float64(after.heapStack-before.heapStack) / n)
	m["goroutines"] = float64(runtime.NumGoroutine())
	if o.heapProfile != "" {
		if err := writeHeapProfile(o.heapProfile); err != nil {
			return nil, err
		}
	}
	t1 := time.Now()
	if err := f.stop(); err != nil {
		return nil, err
	}
	if err := waitFor("end of all", patience, func() bool { return p.stopped.Load() >= int64(o.n) }); err != nil {
		return nil, err
	}
	m["shutdown_s"] = time.Since(t1).Seconds()
	return m, nil
}

func writeHeapProfile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("heap").WriteTo(f, 0)
}

// restart has one child fail as its first act, again and again, next to n
// idle siblings: restarts per second.
func restart(f fleet, p *probe, o options) (metrics, error) {
	storm := cmp.Or(o.storm, 2*time.Second)
	p.failing.Store(math.MaxInt64)
	if err := f.start(o.n, true); err != nil {
		return nil, err
	}
	err := waitFor("start of all", patience, func() bool {
		return p.runs.Load() > 0 && p.started.Load() >= int64(o.n)
	})
	if err != nil {
		return nil, err
	}
	// The storm has been blowing while the siblings were started; it counts from here.
	t0, r0 := nanos(), p.runs.Load()
	last, lastAt := r0, t0
	for nanos()-t0 < int64(storm) {
		time.Sleep(20 * time.Millisecond)
		if r := p.runs.Load(); r != last {
			last, lastAt = r, nanos()
		}
	}
	if nanos()-lastAt > int64(storm)/2 {
		// The library has stopped restarting its child.
		return metrics{"lost_after": float64(last)}, nil
	}
	return metrics{"restarts_per_s": math.Round(float64(last-r0) / (float64(lastAt-t0) / 1e9))}, nil
}

// latency has one child fail now and then, next to n idle siblings:
// microseconds from right before the failure to the successor's first act.
func latency(f fleet, p *probe, o options) (metrics, error) {
	p.restarts = make(chan int64, 16)
	if err := f.start(o.n, true); err != nil {
		return nil, err
	}
	err := waitFor("start of all", patience, func() bool {
		return p.runs.Load() > 0 && p.started.Load() >= int64(o.n)
	})
	if err != nil {
		return nil, err
	}
	runtime.GC()
	rounds := cmp.Or(o.rounds, 1000)
	v := make([]time.Duration, 0, rounds)
	for range rounds {
		time.Sleep(cmp.Or(o.pause, 2*time.Millisecond))
		f.crash()
		select {
		case ns := <-p.restarts:
			v = append(v, time.Duration(ns))
		case <-time.After(5 * time.Second):
			return metrics{"lost_after": float64(len(v))}, nil
		}
	}
	return quantiles(v), nil
}

// rest fails the first of n children of a rest_for_one supervisor:
// microseconds until n new incarnations have performed their first act.
func rest(f fleet, p *probe, o options) (metrics, error) {
	if err := f.start(o.n, false); err != nil {
		return nil, err
	}
	err := waitFor("start of all", patience, func() bool { return p.started.Load() >= int64(o.n) })
	if err != nil {
		return nil, err
	}
	rounds := cmp.Or(o.rounds, 30)
	v := make([]time.Duration, 0, rounds)
	for range rounds {
		time.Sleep(cmp.Or(o.pause, 2*time.Millisecond))
		want := p.started.Load() + int64(o.n)
		t0 := time.Now()
		f.crash()
		for p.started.Load() < want {
			time.Sleep(20 * time.Microsecond)
			if time.Since(t0) > time.Minute {
				return nil, fmt.Errorf("group restart %d: %d of %d missing after a minute", len(v)+1,
					want-p.started.Load(), o.n)
			}
		}
		v = append(v, time.Since(t0))
	}
	return quantiles(v), nil
}

// lost has one child fail as its first act, rounds times, and then run: how
// many of the restarts did not happen, and how many happened twice.
func lost(f fleet, p *probe, o options) (metrics, error) {
	rounds := int64(cmp.Or(o.rounds, 100_000))
	p.failing.Store(rounds)
	t0 := time.Now()
	if err := f.start(o.n, true); err != nil {
		return nil, err
	}
	// rounds failures make rounds+1 incarnations. One that never comes is lost:
	// a second without any news is the end of it.
	seen, since := int64(0), time.Now()
	for seen < rounds+1 && time.Since(since) < time.Second {
		time.Sleep(200 * time.Microsecond)
		if r := p.runs.Load(); r != seen {
			seen, since = r, time.Now()
		}
	}
	m := metrics{"storm_s": time.Since(t0).Seconds()}
	// One too many would come at once; 50 ms are room enough for it.
	time.Sleep(50 * time.Millisecond)
	m["lost"] = float64(rounds + 1 - p.runs.Load())
	if c, ok := f.(counter); ok {
		r, err := c.restarts()
		if err != nil {
			return nil, err
		}
		m["counted"] = float64(r)
		m["miscounted"] = math.Abs(float64(p.runs.Load() - 1 - int64(r)))
	}
	return m, nil
}

// quantiles sorts v.
func quantiles(v []time.Duration) metrics {
	slices.Sort(v)
	at := func(q float64) float64 {
		return float64(v[min(len(v)-1, int(q*float64(len(v))))]) / 1e3
	}
	return metrics{"p50_us": at(.50), "p99_us": at(.99), "max_us": at(1)}
}
