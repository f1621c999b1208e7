package metrics

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ready returns metrics of a daemon whose checks all pass.
func ready() (*parts, *Metrics) {
	p := newParts()
	m := New(p.Options)
	m.Passed(time.Millisecond)
	m.Started()
	return p, m
}

func TestReady(t *testing.T) {
	for name, tt := range map[string]struct {
		of   func(p *parts) // before
		then func(p *parts, m *Metrics)
		want string // the failing check; empty if none fails
	}{
		"all well": {},
		"the root does not answer": {
			of:   func(p *parts) { p.Root = func() error { return errors.New("it has ended") } },
			want: "[-]root failed: it has ended\n[+]store ok\n[+]reconcile ok\n[+]starts ok\n[+]stopping ok\n"},
		"the store accepts no writes": {
			of:   func(p *parts) { p.Writable = func() error { return errors.New("disk full") } },
			want: "[+]root ok\n[-]store failed: disk full\n[+]reconcile ok\n[+]starts ok\n[+]stopping ok\n"},
		"a pass that hangs": {
			of:   func(p *parts) { p.Stalled = func() error { return errors.New("the last pass is old") } },
			want: "[+]root ok\n[+]store ok\n[-]reconcile failed: the last pass is old\n[+]starts ok\n[+]stopping ok\n"},
		"starts in progress": {
			then: func(_ *parts, m *Metrics) { m.started.Store(false) },
			want: "[+]root ok\n[+]store ok\n[+]reconcile ok\n" +
				"[-]starts failed: not all agents were adopted or started yet\n[+]stopping ok\n"},
		"stopping": {
			then: func(p *parts, _ *Metrics) { close(p.down) },
			want: "[+]root ok\n[+]store ok\n[+]reconcile ok\n[+]starts ok\n[-]stopping failed: the daemon stops\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newParts()
			if tt.of != nil {
				tt.of(p)
			}
			m := New(p.Options)
			m.Passed(time.Millisecond)
			m.Started()
			if tt.then != nil {
				tt.then(p, m)
			}
			status, want := 200, "ok"
			if tt.want != "" {
				status, want = 503, tt.want+"readyz check failed\n"
			}
			if code, got := get(t, m, "/readyz"); code != status || got != want {
				t.Errorf("%s: %d %s", name, code, got)
			}
			if tt.want == "" {
				want = "[+]root ok\n[+]store ok\n[+]reconcile ok\n[+]starts ok\n[+]stopping ok\nreadyz check passed\n"
			}
			if code, got := get(t, m, "/readyz?verbose"); code != status || got != want {
				t.Errorf("%s: %d %s", name, code, got)
			}
		})
	}
}

// The daemon lives while its root answers, also while it stops; a probe that hangs is not repeated.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParts()
		var asked atomic.Int64
		var ended atomic.Bool
		release := make(chan struct{})
		p.Root = func() error {
			asked.Add(1)
			<-release
			if ended.Load() {
				return errors.New("it has ended")
			}
			return nil
		}
		m := New(p.Options)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				begun := time.Now()
				if code, got := get(t, m, "/livez"); code != 503 || time.Since(begun) != checkTimeout ||
					got != "[-]root failed: it does not answer\nlivez check failed\n" {
					t.Errorf("%d %s", code, got)
				}
			})
		}
		both.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("the root was asked %d times", n)
		}
		close(release)
		synctest.Wait()
		if code, got := get(t, m, "/livez"); code != 200 || got != "ok" {
			t.Errorf("%d %s", code, got)
		}
		if code, got := get(t, m, "/livez?verbose"); code != 200 || got != "[+]root ok\nlivez check passed\n" {
			t.Errorf("%d %s", code, got)
		}
		ended.Store(true)
		if code, _ := get(t, m, "/livez"); code != 503 {
			t.Error(code)
		}
		close(p.down)
		if code, _ := get(t, m, "/livez"); code != 200 {
			t.Error(code)
		}
	})
}

func TestRoutes(t *testing.T) {
	_, m := ready()
	for path, want := range map[string]int{"/": 404, "/healthz": 404, "/metrics/x": 404, "/metrics": 200, "/livez": 200,
		"/readyz": 200} {
		if code, _ := get(t, m, path); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
}
