package shutdown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// fleet simulates agents and their supervisors, which ask all of them to stop at once.
type fleet struct {
	sequence Sequence
	order    *spec.StartOrder
	begun    time.Time

	mu   sync.Mutex
	last map[string]*fakeAgent
	log  []string
}

// fakeAgent is an agent that ends some time after it was asked.
type fakeAgent struct {
	fleet *fleet
	path  string
	takes time.Duration
	gone  chan struct{}
	once  sync.Once
	kill  chan struct{}
	since time.Time
}

func (p *fakeAgent) Gone() <-chan struct{} { return p.gone }
func (p *fakeAgent) Kill()                 { p.once.Do(func() { close(p.kill) }) }

func (p *fakeAgent) Overdue(allowed time.Duration) time.Duration {
	p.fleet.mu.Lock()
	defer p.fleet.mu.Unlock()
	if took := time.Since(p.since); !p.since.IsZero() && took >= allowed {
		p.since = time.Time{}
		return took
	}
	return 0
}

func (f *fleet) logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("%v %s", time.Since(f.begun), fmt.Sprintf(format, args...)))
}

func (f *fleet) of(path string) Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.last[path]; p != nil {
		return p
	}
	return nil
}

func (f *fleet) lives(path string, takes time.Duration) *fakeAgent {
	p := &fakeAgent{fleet: f, path: path, takes: takes, gone: make(chan struct{}), kill: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[path] = p
	return p
}

// stop stops the agent as its supervisor does.
func (p *fakeAgent) stop() {
	within, ordered := p.fleet.sequence.Await(context.Background(), p.path)
	if !ordered || within == 0 {
		p.Kill()
	}
	p.fleet.mu.Lock()
	p.since = time.Now()
	p.fleet.mu.Unlock()
	select {
	case <-time.After(p.takes):
		p.fleet.logf("%s ended", p.path)
	case <-p.kill:
		p.fleet.logf("%s killed", p.path)
	}
	close(p.gone)
}

func newFleet(t *testing.T, order string) *fleet {
	t.Helper()
	root := spec.Node{Name: "p"}
	var decls []spec.Decl
	for line := range strings.SplitSeq(order, ";") {
		name, needs, _ := strings.Cut(line, "<")
		a := &spec.Agent{Name: strings.TrimSpace(name), Command: []string{"x"}, DependsOn: strings.Fields(needs)}
		decls = append(decls, spec.Decl{Agent: a})
	}
	tree, problems := spec.Assemble(root, decls)
	if problems != nil {
		t.Fatal(problems)
	}
	return &fleet{order: tree.StartOrder(), begun: time.Now(), last: make(map[string]*fakeAgent)}
}

func (f *fleet) begin(starting map[string]<-chan struct{}) *Run {
	living := make(map[string]Process)
	for path, p := range f.last {
		living[path] = p
	}
	return f.sequence.Begin(Scope{
		Path: "p", Order: f.order, Living: living, Starting: starting, Of: f.of,
		Allowed: func(string) time.Duration { return 10 * time.Second },
		Late:    func() { f.logf("late") },
		Overdue: func(path string, waited time.Duration) { f.logf("%s overdue after %v", path, waited) },
	})
}

func (f *fleet) wantLog(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(f.log, "\n"), strings.Join(want, "\n"))
	}
}

// Agents that are all asked at once end in the order of their dependencies.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "db; api < db; web < api; other")
		for path, takes := range map[string]time.Duration{"p/db": 1, "p/api": 2, "p/web": 3, "p/other": 60} {
			f.lives(path, takes*time.Second)
		}
		run := f.begin(nil)
		if b := f.sequence.Bound("p/db"); b <= 20*time.Second || f.sequence.Bound("q/db") != 0 || f.sequence.Covers("pq") {
			t.Errorf("bound %v", b)
		}
		for _, p := range f.last {
			go p.stop()
		}
		run.Do(nil, nil)
		run.End()
		f.wantLog(t, "3s p/web ended", "5s p/api ended", "6s p/db ended", "10s p/other overdue after 10s", "10s p/other killed")
		if f.sequence.Covers("p/db") {
			t.Error("it is over, and covers")
		}
	})
}

// A run waits for starts that are under way, and stops agents that are started meanwhile.
func TestRunWithStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "db; api < db; web < api")
		f.lives("p/db", time.Second)
		came, failed := make(chan struct{}), make(chan struct{})
		run := f.begin(map[string]<-chan struct{}{"p/api": came, "p/web": failed})
		go f.last["p/db"].stop()
		go func() {
			time.Sleep(2 * time.Second)
			close(failed)
			time.Sleep(2 * time.Second)
			api := f.lives("p/api", 3*time.Second)
			close(came)
			api.stop()
		}()
		go func() {
			time.Sleep(5 * time.Second)
			f.lives("p/unknown", time.Second).stop()
		}()
		run.Do(nil, nil)
		run.End()
		f.wantLog(t, "6s p/unknown ended", "7s p/api ended", "8s p/db ended")
	})
}

// A second request stops all agents at once, without an order.
func TestRunInAHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "db; api < db")
		db := f.lives("p/db", time.Second)
		f.lives("p/api", time.Hour)
		run := f.begin(nil)
		for _, p := range f.last {
			go p.stop()
		}
		hurry := make(chan struct{})
		go func() {
			time.Sleep(2 * time.Second)
			close(hurry)
		}()
		run.Do(hurry, nil)
		<-db.gone
		f.wantLog(t, "3s p/db ended")
		f.last["p/api"].Kill()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("killed"))
		f.sequence.Await(ctx, "p/db") // returns at once
		run.End()
		synctest.Wait()
	})
}

// Late is called when a supervisor that asks its children one after the other is too slow.
func TestRunIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, "db; api < db; web < api")
		for _, path := range []string{"p/db", "p/api", "p/web"} {
			f.lives(path, time.Hour)
		}
		run := f.begin(nil)
		run.Scope.Late = func() {
			f.logf("late")
			go f.last["p/api"].stop()
			go f.last["p/db"].stop()
		}
		go f.last["p/web"].stop()
		run.Do(nil, nil)
		run.End()
		f.wantLog(t, "10s late", "10s p/web overdue after 10s", "10s p/web killed", "20s p/api overdue after 10s", "20s p/api killed", "20s p/db overdue after 10s", "20s p/db killed")
	})
}
