//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	valueSize = 500 // bytes of a record or event
	writers   = 16  // that write at the same time
	batch     = 50  // events of one write
	renewals  = 10  // of each lease
	ttl       = 10 * time.Second
)

// sizes are the numbers that make a measurement long or short.
type sizes struct {
	span    time.Duration
	records int
	rounds  int
}

// meter measures a backend.
type meter struct {
	backend
	sizes
	metrics map[string]float64
}

// value returns the value of write number i; no two in a row are the same.
func value(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, valueSize) }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func ms(d time.Duration) float64 { return us(d) / 1000 }

// median sorts durations.
func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// writes measures writes of one record, of one record by many, the same with an event, and of events.
func (m *meter) writes(ctx context.Context) error {
	events := make([][]byte, batch)
	for i := range events {
		events[i] = value(i)
	}
	for _, kind := range []struct {
		name    string
		writers int
		log     string
		events  [][]byte
		alone   bool // no record
	}{
		{name: "serial", writers: 1},
		{name: "many", writers: writers},
		{name: "logged", writers: writers, log: "logged", events: events[:1]},
		{name: "events", writers: 1, log: "events", events: events, alone: true},
	} {
		revs := make([]int64, kind.writers)
		act := func(writer, i int) error {
			w := write{log: kind.log, events: kind.events}
			if !kind.alone {
				w.key, w.value, w.rev = fmt.Sprintf("%s/%d", kind.name, writer), value(i), revs[writer]
			}
			rev, err := m.write(ctx, w)
			revs[writer] = rev
			return err
		}
		if _, _, err := m.repeat(kind.writers, m.span/10, act); err != nil { // connections, pages, the log
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		took, elapsed, err := m.repeat(kind.writers, m.span, act)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		m.metrics[kind.name+"_p50_us"] = us(median(took))
		m.metrics[kind.name+"_p99_us"] = us(took[len(took)*99/100])
		done := float64(len(took))
		if kind.alone {
			done *= batch
		}
		m.metrics[kind.name+"_per_s"] = done / elapsed.Seconds()
	}
	return nil
}

// repeat has n writers act for a while, each one time after the other. It returns what each time took.
func (m *meter) repeat(n int, span time.Duration, act func(writer, i int) error) (took []time.Duration,
	elapsed time.Duration, errs error) {
	var mu sync.Mutex
	begun := time.Now()
	var work sync.WaitGroup
	for writer := range n {
		work.Go(func() {
			var own []time.Duration
			var err error
			for i := 0; err == nil && (i == 0 || time.Since(begun) < span); i++ {
				from := time.Now()
				err = act(writer, i)
				own = append(own, time.Since(from))
			}
			mu.Lock()
			defer mu.Unlock()
			took, errs = append(took, own...), errors.Join(errs, err)
		})
	}
	work.Wait()
	return took, time.Since(begun), errs
}

// snapshot measures reading many records.
func (m *meter) snapshot(ctx context.Context) error {
	const log = "snapshot"
	for first := 0; first < m.records; first += batch {
		w := write{log: log}
		for i := first; i < min(first+batch, m.records); i++ {
			w.events = append(w.events, value(i))
		}
		if _, err := m.write(ctx, w); err != nil {
			return fmt.Errorf("writing the records of a snapshot: %w", err)
		}
	}
	var took []time.Duration
	for range m.rounds {
		from := time.Now()
		n, err := m.count(ctx, log)
		took = append(took, time.Since(from))
		if err != nil || n != m.records {
			return errors.Join(fmt.Errorf("a snapshot has %d records, expected %d", n, m.records), err)
		}
	}
	m.metrics["snapshot_ms"] = ms(median(took))
	return nil
}

// watch measures the time from the call that writes a record until the change is seen.
func (m *meter) watch(ctx context.Context) error {
	f, ok := m.backend.(follower)
	if !ok {
		return nil
	}
	const key = "watched"
	rev, err := m.write(ctx, write{key: key, value: value(0)})
	if err != nil {
		return err
	}
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, ended := make(chan time.Time, 1), make(chan error, 1)
	go func() { ended <- f.follow(following, key, rev, func() { seen <- time.Now() }) }()
	var took []time.Duration
	for i := range 10*m.rounds + 1 {
		from := time.Now()
		if rev, err = m.write(ctx, write{key: key, value: value(i + 1), rev: rev}); err != nil {
			return err
		}
		select {
		case at := <-seen:
			took = append(took, at.Sub(from))
		case err := <-ended:
			return fmt.Errorf("a watch ended: %w", err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the end of a watch: %w", err)
	}
	m.metrics["watch_p50_us"] = us(median(took[1:])) // the first one waits for the watch to begin
	return nil
}

// lease measures a lease from its beginning to its end.
func (m *meter) lease(ctx context.Context) error {
	l, ok := m.backend.(lessor)
	if !ok {
		return nil
	}
	took := map[string][]time.Duration{}
	timed := func(name string, f func() error) error {
		from := time.Now()
		err := f()
		took[name] = append(took[name], time.Since(from))
		if err != nil {
			return fmt.Errorf("%s of a lease: %w", name, err)
		}
		return nil
	}
	for range m.rounds {
		var held lease
		err := timed("acquire", func() (err error) {
			held, err = l.acquire(ctx, "lease", ttl)
			return err
		})
		for i := 0; i < renewals && err == nil; i++ {
			err = timed("renew", func() error { return held.Renew(ctx) })
		}
		if err == nil {
			err = timed("release", func() error { return held.Release(ctx) })
		}
		if err != nil {
			return err
		}
	}
	for name, times := range took {
		m.metrics[name+"_ms"] = ms(median(times))
	}
	return nil
}
