package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// gated is a store whose writes of runs can be blocked, and which records the written states.
type gated struct {
	store.Store
	mu     sync.Mutex
	hold   chan struct{} // writes of runs wait until it is closed; nil: they do not
	held   chan struct{} // closed when one waits
	states []order.State
}

func blockedStore(p *harness) *gated {
	g := &gated{Store: p.store, hold: make(chan struct{}), held: make(chan struct{})}
	p.store = g
	return g
}

func (g *gated) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	run := false
	for _, op := range ops {
		run = run || strings.HasPrefix(op.Key, runPrefix+"/")
	}
	g.mu.Lock()
	hold := g.hold
	if run && hold != nil {
		g.hold = nil
		close(g.held)
	}
	g.mu.Unlock()
	if run && hold != nil {
		<-hold
	}
	rev, err := g.Store.Apply(ctx, f, conds, ops)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, op := range ops {
		var s order.State
		if strings.HasPrefix(op.Key, statePrefix+"/") && json.Unmarshal(op.Value, &s) == nil {
			g.states = append(g.states, s)
		}
	}
	return rev, err
}

// An earlier decision never overwrites a later one of a person in the store.
func TestEnableIsNotUndone(t *testing.T) {
	p := newHarness(t)
	g := blockedStore(p)
	hold := g.hold
	d := p.open(p.sh("a", "true", every(time.Hour)))
	<-g.held
	done := make(chan error, 1)
	go func() { done <- d.Enable(ctxOf(t), "a", false) }()
	var err error
	select {
	case err = <-done:
		close(hold)
	case <-time.After(100 * time.Millisecond): // it waits, as it should
		close(hold)
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	p.runs("a", 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	by := order.Choice("")
	for _, s := range g.states {
		if by == order.DisabledByHand && s.ByHand == "" {
			t.Errorf("an older state was written after a newer one: %+v", g.states)
		}
		by = s.ByHand
	}
	if by != order.DisabledByHand {
		t.Errorf("%+v", g.states)
	}
}

// A run that is being recorded when everything stops is stopped like all others.
func TestCloseStopsWhatBegins(t *testing.T) {
	p := newHarness(t)
	g := blockedStore(p)
	hold := g.hold
	d := p.open(p.sh("a", "exec sleep 4323", every(time.Hour)))
	<-g.held
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.close(false)
	}()
	until(t, "it is closing", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.closed
	})
	close(hold)
	<-closed
	p.open()
	if r, ok := p.d.history.get(1); !ok || r.Status != order.Stopped {
		t.Errorf("%+v", r)
	}
}

// Each of several callers that fire an order gets the number of its own run.
func TestRunIsOnesOwn(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "true", every(time.Millisecond))
	o.Overlap = order.Allow
	d := p.open(o)
	const n = 10
	got := make(chan uint64, n)
	for i := range n {
		go func() {
			number, err := d.Run(ctxOf(t), "a", "user "+string(rune('a'+i)))
			if r, ok := d.history.get(number); err != nil || !ok || r.By != "user "+string(rune('a'+i)) {
				t.Errorf("%d: %+v, %v", number, r, err)
			}
			got <- number
		}()
	}
	seen := make(map[uint64]bool)
	for range n {
		seen[<-got] = true
	}
	if len(seen) != n {
		t.Errorf("%d runs of %d people", len(seen), n)
	}
	if err := d.Enable(ctxOf(t), "a", false); err != nil {
		t.Fatal(err)
	}
}

// waiting waits until a run waits for its next attempt.
func waiting(t testing.TB, d *Dispatcher, n uint64) {
	t.Helper()
	until(t, "it waits for another attempt", func() bool {
		r, ok := d.history.get(n)
		return ok && r.Status == order.Waiting
	})
}

func failing(o *spec.Order) *spec.Order {
	o.Retries, o.Backoff = 3, supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Hour}
	return o
}

// A run that is stopped while it waits for another attempt has ended, for a command and for a task.
func TestStopWhileWaiting(t *testing.T) {
	p := newHarness(t)
	p.noTasks = errors.New("no room")
	task := failing(&spec.Order{Name: "task", Task: &spec.OrderTask{Title: "look"}, Timeout: time.Minute, Dir: p.dir})
	d := p.open(failing(p.sh("command", "exit 1")), task)
	for _, name := range []string{"command", "task"} {
		n, err := d.Run(ctxOf(t), name, "user")
		if err != nil {
			t.Fatal(err)
		}
		waiting(t, d, n)
		if stopped := d.Stop(name); stopped != 1 {
			t.Errorf("%d runs stopped", stopped)
		}
		r, err := d.Wait(ctxOf(t), n)
		if err != nil || r.Status != order.Stopped || r.Attempt != 1 || !strings.HasPrefix(r.Error, "it was stopped before attempt 2; the last one: ") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Stopping an order also drops its queued run.
func TestStopWithdraws(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "exec sleep 4325")
	o.Overlap = order.Queue
	d := p.open(o)
	n, err := d.Run(ctxOf(t), "a", "user")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := d.Run(ctxOf(t), "a", "user"); m != 0 || err != nil {
		t.Fatal(m, err)
	}
	d.Stop("a")
	if r, err := d.Wait(ctxOf(t), n); err != nil || r.Status != order.Stopped {
		t.Errorf("%+v, %v", r, err)
	}
	if v, err := d.Show("a"); err != nil || v.State.Asked || v.State.Runs != 1 || v.Running != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A removed order gets no further attempt, but a run in progress continues to its end.
func TestRemoved(t *testing.T) {
	p := newHarness(t)
	release := p.fifo("go")
	d := p.open(failing(p.sh("a", "exit 1")), failing(p.sh("b", "echo x >ran; read x <go; exit 1")))
	n, err := d.Run(ctxOf(t), "a", "user")
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Run(ctxOf(t), "b", "user")
	if err != nil {
		t.Fatal(err)
	}
	waiting(t, d, n)
	until(t, "it has begun", func() bool { return p.read("ran") != "" })
	d.Replace(nil)
	if r, err := d.Wait(ctxOf(t), n); err != nil || r.Status != order.Stopped || !strings.Contains(r.Error, "removed") {
		t.Errorf("%+v, %v", r, err)
	}
	release()
	if r, err := d.Wait(ctxOf(t), m); err != nil || r.Status != order.Failed || r.Attempt != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A running command is followed to its end even if its order now creates tasks.
func TestBecomesATask(t *testing.T) {
	p := newHarness(t)
	release := p.fifo("go")
	d := p.open(p.sh("a", "echo x >ran; read x <go; echo end"))
	n, err := d.Run(ctxOf(t), "a", "user")
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it has begun", func() bool { return p.read("ran") != "" })
	p.close(true)
	d = p.open(&spec.Order{Name: "a", Task: &spec.OrderTask{Title: "look"}, Timeout: time.Minute, Dir: p.dir})
	release()
	if r, err := d.Wait(ctxOf(t), n); err != nil || r.Status != order.Completed || r.Task != "" {
		t.Errorf("%+v, %v", r, err)
	}
	if past, err := d.One(ctxOf(t), n); err != nil || len(past.Output) != 1 || past.Output[0] != "end" {
		t.Errorf("%+v, %v", past, err)
	}
}

// Runs of orders that were removed long ago are deleted.
func TestLongRemoved(t *testing.T) {
	p := newHarness(t)
	d := p.open(p.sh("a", "echo x"), p.sh("b", "echo x"))
	for _, name := range []string{"a", "b"} {
		n, err := d.Run(ctxOf(t), name, "user")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Wait(ctxOf(t), n); err != nil {
			t.Fatal(err)
		}
	}
	p.close(true)
	p.advance(forgetAfter + time.Hour)
	d = p.open(p.sh("b", "echo x"))
	until(t, "it is forgotten", func() bool {
		_, err := d.History(ctxOf(t), "a", 1)
		return err == order.ErrUnknown
	})
	if past, err := d.History(ctxOf(t), "b", 1); err != nil || len(past) != 1 {
		t.Errorf("%+v, %v", past, err)
	}
}
