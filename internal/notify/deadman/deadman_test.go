package deadman

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestPinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		var settings spec.Deadman
		var ill, refused error
		var hang chan struct{}
		pings := 0
		p := New(Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Settings: func() spec.Deadman {
				mu.Lock()
				defer mu.Unlock()
				return settings
			},
			Healthy: func() error {
				mu.Lock()
				wait, err := hang, ill
				mu.Unlock()
				if wait != nil {
					<-wait
				}
				return err
			},
			Ping: func(context.Context, spec.Deadman) error {
				mu.Lock()
				defer mu.Unlock()
				pings++
				return refused
			},
		})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		set := func(change func()) {
			mu.Lock()
			change()
			mu.Unlock()
			p.Changed()
		}
		wants := func(after time.Duration, n int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if pings != n {
				t.Fatalf("%d pings, want %d", pings, n)
			}
			pings = 0
		}
		wants(time.Hour, 0)
		set(func() { settings = spec.Deadman{URL: "http://x", Interval: time.Minute} })
		wants(0, 1)
		wants(10*time.Minute, 10)
		set(func() {}) // another change of the file
		wants(59*time.Second, 0)
		set(func() { settings.Interval = time.Hour })
		wants(0, 1)
		wants(2*time.Hour, 2)
		set(func() { ill = errors.New("it hangs") })
		wants(2*time.Hour, 0)
		set(func() { ill, refused = nil, errors.New("status 500") })
		wants(2*time.Hour, 20)
		set(func() { refused = nil })
		wants(time.Hour, 1)
		set(func() { hang = make(chan struct{}) })
		wants(5*time.Hour, 0)
		set(func() { close(hang); hang = nil })
		wants(time.Hour, 2)
		set(func() { settings = spec.Deadman{} })
		wants(5*time.Hour, 0)
		cancel()
		running.Wait()
		if n := strings.Count(log.String(), "cannot ping"); n != 1 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
	})
}
