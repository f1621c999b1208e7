package dispatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{"shim": server.Main, daemonArg: daemonMain})
}

const waitTimeout = 60 * time.Second

func ctxOf(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// harness holds the state that successive dispatchers of a test share.
type harness struct {
	t       testing.TB
	dir     string
	store   store.Store
	mu      sync.Mutex
	ahead   time.Duration // by how much the clock is advanced
	held    string
	boot    string
	tasks   map[string]spec.OrderTask
	noTasks error // the error of creating a task
	d       *Dispatcher
	log     *event.Log
	jobs    *job.Runner
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	db := memory.New()
	p := &harness{t: t, dir: t.TempDir(), store: db, boot: "one", tasks: make(map[string]spec.OrderTask)}
	t.Cleanup(func() {
		p.close(false)
		r, err := job.Open(job.Options{Dir: filepath.Join(p.dir, "jobs")})
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		if err := r.End(ctx); err != nil {
			t.Error(err)
		}
		r.Close()
		db.Close()
	})
	return p
}

func (p *harness) clock() order.Now {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := clock()
	return order.Now{Wall: now.Wall.Add(p.ahead), Up: now.Up + p.ahead, Boot: p.boot}
}

// pass lets time pass, as orders see it.
func (p *harness) advance(d time.Duration) {
	p.mu.Lock()
	p.ahead += d
	p.mu.Unlock()
	if p.d != nil {
		p.d.poke()
	}
}

// open opens a dispatcher.
func (p *harness) open(all ...*spec.Order) *Dispatcher {
	p.t.Helper()
	var err error
	if p.jobs, err = job.Open(job.Options{Dir: filepath.Join(p.dir, "jobs")}); err != nil {
		p.t.Fatal(err)
	}
	if p.log, err = event.Open(event.Config{Store: p.store}); err != nil {
		p.t.Fatal(err)
	}
	checks := gate.NewRunner(p.jobs.Dir(), nil)
	checks.Sweep(ctxOf(p.t))
	p.d, err = Open(ctxOf(p.t), Options{
		Store: p.store, Log: p.log, Jobs: p.jobs, Checks: checks, Orders: all, Clock: p.clock,
		Environ: func(declared map[string]string) []string {
			env := []string{"PATH=/usr/bin:/bin", runtimetest.Env()}
			for k, v := range declared {
				env = append(env, k+"="+v)
			}
			return env
		},
		Span: func(run string, attempt int, env []string) []string {
			return append(env, fmt.Sprintf("SPAN=span-of-%s-%d", run, attempt))
		},
		Held: func(*spec.Order) string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.held
		},
		Task: func(_ context.Context, key string, t spec.OrderTask) (string, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tasks[key] = t
			return "t-" + key, p.noTasks
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.d
}

// close closes the dispatcher.
func (p *harness) close(keep bool) {
	if p.d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	p.d.Close(ctx, keep)
	p.d = nil
	p.jobs.Close()
	if err := p.log.Close(ctx); err != nil {
		p.t.Error(err)
	}
}

func (p *harness) path(name string) string { return filepath.Join(p.dir, name) }

// sh returns an order that runs a script in the directory of the harness.
func (p *harness) sh(name, script string, gates ...spec.Gate) *spec.Order {
	return &spec.Order{
		Name: name, Command: []string{"/bin/sh", "-c", script}, Dir: p.dir, Gates: gates, Timeout: time.Minute,
	}
}

// runs waits until n runs of an order have ended, and returns its runs, the newest first.
func (p *harness) runs(name string, n int) []RunWithOutput {
	p.t.Helper()
	for {
		moved := p.d.history.next()
		past, err := p.d.History(ctxOf(p.t), name, 1000)
		if err != nil && err != order.ErrUnknown {
			p.t.Fatal(err)
		}
		ended := 0
		for _, r := range past {
			p.d.mu.Lock()
			if r.Status.Over() && p.d.active[r.Number] == nil {
				ended++
			}
			p.d.mu.Unlock()
		}
		if ended >= n {
			return past
		}
		select {
		case <-moved:
		case <-time.After(waitTimeout):
			p.t.Fatalf("order %s has %d runs that have ended, not %d: %+v", name, ended, n, past)
		}
	}
}

// fifo creates a FIFO that a script reads from; release unblocks the script.
func (p *harness) fifo(name string) (release func()) {
	p.t.Helper()
	if err := syscall.Mkfifo(p.path(name), 0o600); err != nil {
		p.t.Fatal(err)
	}
	// With O_RDWR, opening does not block without a reader.
	f, err := os.OpenFile(p.path(name), os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return func() {
		if _, err := f.WriteString("x\n"); err != nil {
			p.t.Fatal(err)
		}
	}
}

// read returns the content of a file, or "" if there is none.
func (p *harness) read(name string) string {
	b, err := os.ReadFile(p.path(name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(b)
}

// until polls a condition.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain: " + what)
		}
	}
}
