package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spanid"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/traces/export"
	"github.com/coppice-dev/coppice/internal/traces/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is the other side of connections.
type receiver struct {
	mu       sync.Mutex
	got      []string
	fail     error
	rejects  int64
	open     int
	requests int
}

func (r *receiver) Export(_ context.Context, all []spans.Span) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if r.fail != nil {
		return 0, r.fail
	}
	for _, s := range all {
		var path string
		var n int64
		for _, a := range s.Attributes {
			switch a.Key {
			case "coppice.agent.path":
				path = a.Value.AsString()
			case "coppice.incarnation":
				n = a.Value.AsInt64()
			}
		}
		r.got = append(r.got, fmt.Sprintf("%s#%d %v", path, n, s.End.Sub(s.Start)))
	}
	return r.rejects, nil
}

func (r *receiver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
}

// daemon is a Manager with its log, from one start to the next.
type daemon struct {
	t *testing.T
	*Manager
	log     *event.Log
	out     *bytes.Buffer
	stop    context.CancelFunc
	running sync.WaitGroup
	r       *receiver
	mu      *sync.Mutex
	to      *spec.Traces
}

// project is what daemons share.
type project struct {
	t     *testing.T
	store store.Store
	epoch string
	r     receiver
	mu    sync.Mutex
	to    spec.Traces
}

func newProject(t *testing.T) *project {
	p := &project{t: t, store: memory.New(), epoch: "e", to: spec.Traces{Endpoint: "http://x"}}
	t.Cleanup(func() { p.store.Close() })
	return p
}

// start starts a daemon.
func (p *project) start(once bool) *daemon {
	p.t.Helper()
	d := &daemon{t: p.t, out: &bytes.Buffer{}, r: &p.r, mu: &p.mu, to: &p.to}
	epoch := p.epoch
	log, err := event.Open(event.Config{Store: p.store, Epoch: func() string { return epoch }})
	if err != nil {
		p.t.Fatal(err)
	}
	d.log = log
	d.Manager = New(Options{
		Store: p.store, Log: log, Epoch: func() string { return epoch }, Once: once,
		Logger: slog.New(slog.NewTextHandler(d.out, nil)),
		Settings: func() spec.Traces {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.to
		},
		Connect: func(spec.Traces) (Connection, error) {
			p.r.mu.Lock()
			defer p.r.mu.Unlock()
			p.r.open++
			return &p.r, nil
		},
	})
	_, before, err := log.Last(p.t.Context(), 1, func(event.Event) bool { return true })
	if err != nil {
		p.t.Fatal(err)
	}
	if err := d.Open(p.t.Context(), before); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	d.running.Go(func() { d.Run(ctx) })
	return d
}

// end ends a daemon in order.
func (d *daemon) end() {
	d.stop()
	d.running.Wait()
	if err := d.log.Close(context.Background()); err != nil {
		d.t.Error(err)
	}
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if d.r.open != 0 {
		d.t.Errorf("%d connections are open", d.r.open)
	}
}

// life appends the events of an incarnation that runs for so many seconds.
func (d *daemon) life(path string, n uint64, seconds int) {
	d.begin(path, n)
	time.Sleep(time.Duration(seconds) * time.Second)
	d.finish(path, n)
}

func (d *daemon) begin(path string, n uint64) {
	d.log.Append(event.Event{Type: event.AgentStarted, Path: path, Incarnation: n})
}

func (d *daemon) finish(path string, n uint64) {
	d.log.Append(event.Event{Type: event.AgentStopped, Path: path, Incarnation: n})
}

// set changes the settings.
func (d *daemon) set(endpoint string) {
	d.mu.Lock()
	*d.to = spec.Traces{Endpoint: endpoint}
	d.mu.Unlock()
	d.Changed()
}

// fail has the receiver answer with an error; nil for none.
func (d *daemon) fail(err error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	d.r.fail, d.r.requests = err, 0
}

// wants waits, and expects what the receiver has got since the last call.
func (d *daemon) wants(after time.Duration, want ...string) {
	d.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if !slices.Equal(d.r.got, want) {
		d.t.Fatalf("got %q, want %q\n%s", d.r.got, want, d.out)
	}
	d.r.got = nil
}

func (d *daemon) wantRequests(n int) {
	d.t.Helper()
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	if d.r.requests != n {
		d.t.Errorf("%d requests, want %d", d.r.requests, n)
	}
	d.r.requests = 0
}

func (d *daemon) parent(path string, n int) string {
	env := d.Environ(path, []string{"A=b", fmt.Sprintf("COPPICE_INCARNATION=%d", n)})
	if len(env) < 3 {
		return ""
	}
	return strings.TrimPrefix(env[2], "TRACEPARENT=")
}

// Spans that end within two seconds are one request. The next daemon goes on where this one has ended, in order or not.
func TestContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t)
		d := p.start(false)
		d.begin("t/long", 1)
		d.life("t/a", 1, 3)
		d.life("t/a", 2, 1)
		d.wants(500 * time.Millisecond)
		d.wants(time.Second, "t/a#1 3s", "t/a#2 1s")
		d.wantRequests(1)
		id := d.parent("t/long", 1)
		d.finish("t/b", 1) // whose start is not known
		d.life("t/a", 3, 1)
		d.end()
		d.wants(0, "t/a#3 1s")

		d = p.start(false)
		d.wants(time.Minute)
		if got := d.parent("t/long", 1); got != id || id == "" {
			t.Errorf("%s is now %s", id, got)
		}
		d.life("t/a", 4, 1)
		d.fail(errors.New("down"))
		d.end()
		d.wants(0)
		d.fail(nil)

		d = p.start(false)
		d.finish("t/long", 1)
		d.wants(time.Minute, "t/a#4 1s", "t/long#1 1m7.5s")
		d.end()
	})
}

// A receiver that is down is tried at growing intervals, and once it works nothing is missing. It is said once.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t)
		d := p.start(false)
		defer d.end()
		d.fail(errors.New("down"))
		var want []string
		for n := range uint64(3 * maxBatch) {
			d.begin("t/a", n+1)
			d.finish("t/a", n+1)
			want = append(want, fmt.Sprintf("t/a#%d 0s", n+1))
		}
		d.wants(time.Minute)
		d.wantRequests(6) // after 0, 1, 3, 7, 15, 31 s
		d.wants(time.Hour)
		d.wantRequests(60)
		d.fail(nil)
		d.wants(time.Minute, want...)
		d.fail(&export.Error{Wait: 5 * time.Minute, Reason: "slow down"})
		d.life("t/a", 1, 1)
		d.wants(6 * time.Minute)
		d.wantRequests(2)
		d.fail(nil)
		d.wants(5*time.Minute, "t/a#1 1s")
		if n := strings.Count(d.out.String(), "cannot export traces"); n != 2 ||
			strings.Count(d.out.String(), "traces are exported again") != 2 {
			t.Error(d.out)
		}
	})
}

// Spans that the receiver refuses are dropped, and counted. Others follow.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t)
		d := p.start(false)
		d.fail(&export.Error{Refused: true, Reason: "400"})
		d.life("t/a", 1, 1)
		d.life("t/a", 2, 1)
		d.wants(time.Minute)
		d.wantRequests(1)
		d.fail(nil)
		d.r.rejects = 1
		d.life("t/a", 3, 1)
		d.wants(time.Minute, "t/a#3 1s")
		d.r.rejects = 0
		d.life("t/a", 4, 1)
		d.wants(time.Minute, "t/a#4 1s")
		d.end()
		if out := d.out.String(); strings.Count(out, "cannot export traces") != 1 ||
			!strings.Contains(out, "dropped=2") || !strings.Contains(out, "dropped=3") {
			t.Error(out)
		}
	})
}

// Changes of the settings apply at once: nothing of the time in which nothing was exported follows.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t)
		p.to = spec.Traces{}
		d := p.start(false)
		d.life("t/a", 1, 1)
		d.begin("t/long", 1)
		d.wants(time.Minute)
		if got := d.parent("t/a", 2); got != "" {
			t.Errorf("TRACEPARENT is %s", got)
		}
		d.set("http://x")
		d.wants(time.Second)
		id := d.parent("t/a", 2)
		d.finish("t/long", 1)
		d.life("t/a", 2, 1)
		d.wants(time.Minute, "t/long#1 1m1s", "t/a#2 1s")
		d.fail(errors.New("down"))
		d.life("t/a", 3, 1)
		d.Changed() // another part of the file
		d.wants(10 * time.Minute)
		d.fail(nil)
		d.set("http://y")
		d.wants(3*time.Second, "t/a#3 1s")
		d.set("")
		d.wants(0)
		d.life("t/a", 4, 1)
		d.end()
		d = p.start(false)
		d.set("http://x")
		d.life("t/a", 5, 1)
		d.wants(time.Minute, "t/a#5 1s")
		if got := d.parent("t/a", 2); got != id || id == "" {
			t.Errorf("%s is now %s", id, got)
		}
		d.end()
	})
}

// A run has other IDs than what was before, and the daemon after it has those of the run. Another log has others.
func TestNumbering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t)
		ids := map[string]int{}
		for i, once := range []bool{false, true, false, true, false} {
			d := p.start(once)
			ids[d.parent("t/a", 1)] = i
			d.life("t/a", 1, 1)
			d.end()
			d.wants(0, "t/a#1 1s")
		}
		p.epoch = "f"
		d := p.start(false)
		ids[d.parent("t/a", 1)] = 5
		d.end()
		p.to = spec.Traces{}
		p.start(true).end()
		p.to = spec.Traces{Endpoint: "http://x"}
		d = p.start(false)
		ids[d.parent("t/a", 1)] = 6
		d.end()
		if len(ids) != 5 || ids[""] != 0 {
			t.Errorf("%v", ids)
		}
	})
}

// The variable of an incarnation is its own, if it has any.
func TestEnviron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *Manager
		none.Changed()
		none.Run(t.Context())
		if err := none.Open(t.Context(), 1); err != nil || len(none.Environ("t/a", nil)) != 0 {
			t.Error(err)
		}
		p := newProject(t)
		d := p.start(false)
		defer d.end()
		id, ok := spanid.Parse(d.parent("t/a", 7))
		if !ok || id != spanid.Incarnation(d.numbering(), "t/a", 7) {
			t.Errorf("%v, %v", id, ok)
		}
		for _, env := range [][]string{
			nil, {"A=b"}, {"COPPICE_INCARNATION=1", "TRACEPARENT=mine"}, {"TRACEPARENT=", "COPPICE_INCARNATION=1"},
		} {
			if got := d.Environ("t/a", env); !slices.Equal(got, env) {
				t.Errorf("%v is now %v", env, got)
			}
		}
		order := spanid.Variable + "=" + spanid.Order(d.numbering(), "r-1", 2).Traceparent()
		if got := d.OrderEnviron("r-1", 2, []string{"A=b"}); !slices.Equal(got, []string{"A=b", order}) {
			t.Errorf("%v", got)
		}
		if got := none.OrderEnviron("r-1", 2, []string{"A=b"}); !slices.Equal(got, []string{"A=b"}) {
			t.Errorf("%v", got)
		}
		shared := make([]string, 1, 2)
		shared[0] = "COPPICE_INCARNATION=1"
		d.Environ("t/a", shared)
		if shared[:2][1] != "" {
			t.Errorf("%v", shared[:2])
		}
	})
}

// A state that cannot be read is none.
func TestDamagedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProject(t)
		ops := []store.Op{{Kind: store.Put, Key: stateKey, Value: []byte(`{"numbering":7`)}}
		if _, err := p.store.Apply(t.Context(), store.Fence{}, nil, ops); err != nil {
			t.Fatal(err)
		}
		d := p.start(false)
		d.life("t/a", 1, 1)
		d.wants(time.Minute, "t/a#1 1s")
		d.end()
		if !strings.Contains(d.out.String(), "cannot read up to where traces are exported") {
			t.Error(d.out)
		}
	})
}
