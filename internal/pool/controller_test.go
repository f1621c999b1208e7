package pool

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// fakeFleet is a fleet with the pool t/w, whose instances start and stop at once, and its drains.
type fakeFleet struct {
	mu      sync.Mutex
	stopped bool // the supervisor of the pool does not run
	living  map[string]Instance
	drains  map[string]drain.State
	pending map[string]bool
	broken  error // of the next attempts to apply
	applied int
	log     []string
	manager *Manager
}

func (f *fakeFleet) do(g func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g()
}

func (f *fakeFleet) Interval() time.Duration { return time.Minute }

func (f *fakeFleet) Runs(string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stopped
}

func (f *fakeFleet) Instances(string) ([]Instance, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.living)), true
}

func (f *fakeFleet) IsPending(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pending[path]
}

func (f *fakeFleet) Apply(_ context.Context, c *Controller) error {
	if _, left := c.laidOut(); left == nil { // a retired pool of which nothing is left
		f.manager.Adjust(nil, nil)
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied++
	undo := c.Lay()
	if f.broken != nil {
		undo()
		return f.broken
	}
	laid, _ := c.laidOut()
	for _, name := range laid {
		if _, ok := f.living[name]; !ok {
			f.living[name] = Instance{Name: name, Incarnation: 1, Lives: true}
		}
	}
	c.Listed()
	for name := range f.living {
		if !slices.Contains(laid, name) {
			delete(f.living, name)
			delete(f.drains, c.Path()+"/"+name)
			c.Removed(name)
		}
	}
	return nil
}

func (f *fakeFleet) Environ(string, *spec.Agent) (*account.Account, []string, error) {
	return nil, []string{"A=b"}, nil
}

func (f *fakeFleet) Boot(_ context.Context, path string, _ *spec.Agent, more []string) {
	f.do(func() { f.log = append(f.log, "boot "+path+" "+strings.Join(more, " ")) })
}

func (f *fakeFleet) Of(path string) (drain.State, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.drains[path]
	return d, ok
}

func (f *fakeFleet) BeginSurplus(path string, incarnation uint64, reason string, timeout time.Duration) {
	f.do(func() {
		f.drains[path] = drain.State{Incarnation: incarnation, Reason: reason, Deadline: time.Now().Add(timeout), Pool: true}
	})
}

func (f *fakeFleet) CancelSurplus(path string) { f.do(func() { delete(f.drains, path) }) }

func (f *fakeFleet) DecideSurplus(path, why string) {
	f.do(func() {
		if _, ok := f.drains[path]; ok {
			f.log = append(f.log, path+" "+why)
		}
	})
}

// harness is a Manager of the pool t/w.
type harness struct {
	*Manager
	t     *testing.T
	fleet *fakeFleet
	db    store.Store
	end   context.CancelFunc
	asked []Check
	says  int // what the check says
	err   error
}

func newHarness(t *testing.T, db store.Store) *harness {
	f := &fakeFleet{living: make(map[string]Instance), drains: make(map[string]drain.State), pending: make(map[string]bool)}
	r := &harness{t: t, fleet: f, db: db}
	ctx, end := context.WithCancel(t.Context())
	r.end = end
	r.Manager = NewManager(Options{
		Store: db, Logger: slog.New(slog.DiscardHandler), Fleet: f, Drains: f, Socket: "/socket",
		Go:       func(g func(context.Context)) { go g(ctx) },
		Stopping: make(chan struct{}), Ended: make(chan struct{}),
		Append: func(e event.Event, ops ...store.Op) {
			f.do(func() { f.log = append(f.log, e.Message) })
			if _, err := db.Apply(t.Context(), store.Fence{}, nil, ops); err != nil {
				t.Error(err)
			}
		},
		Check: func(_ context.Context, c Check) (int, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			r.asked = append(r.asked, c)
			return r.says, r.err
		},
	})
	f.manager = r.Manager
	return r
}

// declared returns the pools of a file with the pool t/w.
func declared(p spec.Pool) map[string]*spec.Node {
	return map[string]*spec.Node{"t/w": {Name: "w", Template: &spec.Agent{Name: "w", Pool: &p}}}
}

// answers sets the answer of the check, and runs it.
func (r *harness) answers(n int, err error) {
	r.fleet.do(func() { r.says, r.err = n, err })
	r.CheckAll()
	synctest.Wait()
}

func (r *harness) lives(want string) {
	r.t.Helper()
	synctest.Wait()
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	if got := strings.Join(slices.Sorted(maps.Keys(r.fleet.living)), " "); got != want {
		r.t.Errorf("there live %q, want %q", got, want)
	}
}

func (r *harness) finishes(path string) {
	r.fleet.do(func() {
		d := r.fleet.drains[path]
		d.Finished = true
		r.fleet.drains[path] = d
	})
	r.Wake(path)
}

func (r *harness) logged(want ...string) {
	r.t.Helper()
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	if !slices.Equal(r.fleet.log, want) {
		r.t.Errorf("logged\n%s\nwant\n%s", strings.Join(r.fleet.log, "\n"), strings.Join(want, "\n"))
	}
}

var three = spec.Pool{
	Min: 1, Max: 3, Check: []string{"q"}, DrainTimeout: time.Minute, OnBoot: spec.Hook{Command: []string{"b"}},
}

func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		defer r.end()
		r.says = 7
		if err := r.Restore(t.Context(), declared(three), nil, false); err != nil {
			t.Fatal(err)
		}
		r.Start()
		r.lives("w-1 w-2 w-3")
		if err := r.AwaitFirst(t.Context()); err != nil {
			t.Error(err)
		}
		want := Check{Argv: []string{"q"}, Env: []string{"A=b", "COPPICE_POOL=w", "COPPICE_POOL_SIZE=1"}, Mark: "/socket t/w"}
		if !reflect.DeepEqual(r.asked[0], want) {
			t.Errorf("the check is %+v, want %+v", r.asked[0], want)
		}
		r.answers(0, errors.New("no queue")) // costs no instance its work
		r.answers(0, errors.New("no queue"))
		r.answers(1, nil)
		r.lives("w-1 w-2 w-3")
		d, _ := r.fleet.Of("t/w/w-3")
		if d.Incarnation != 1 || d.Reason != surplusReason || time.Until(d.Deadline) != time.Minute {
			t.Errorf("the drain is %+v", d)
		}
		if got := r.API("t/w"); got.Size != 1 || got.Instances != 3 || got.Draining != 2 || got.Answer != 1 {
			t.Errorf("the pool shows %+v", got)
		}
		if err := r.MayStart("t/w/w-3"); !errors.Is(err, api.ErrConflict) {
			t.Errorf("a person may start what is not wanted: %v", err)
		}
		r.finishes("t/w/w-3")
		r.lives("w-1 w-2")
		r.answers(2, nil) // and the second one goes on
		if _, ok := r.fleet.Of("t/w/w-2"); ok || r.MayStart("t/w/w-2") != nil {
			t.Error("it is still to finish")
		}
		r.answers(1, nil)
		time.Sleep(time.Minute)
		r.lives("w-1")
		r.logged("boot t/w COPPICE_POOL=w COPPICE_POOL_SIZE=1",
			"t/w wants 3 instances instead of 1: the check says 7, the bounds are 1..3",
			"the check of t/w has failed, and it keeps its 3 instances: no queue",
			"the check of t/w answers again: 1",
			"t/w wants 1 instance instead of 3: the check says 1, the bounds are 1..3",
			"t/w/w-3 has finished",
			"t/w wants 2 instances instead of 1: the check says 2, the bounds are 1..3",
			"t/w wants 1 instance instead of 2: the check says 1, the bounds are 1..3",
			"t/w/w-2 did not finish in time")
	})
}

// A change of the fleet that fails is undone, and tried again.
func TestApplyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		defer r.end()
		r.fleet.broken = errors.New("the store is gone")
		r.Start()
		r.Adjust(declared(spec.Pool{Min: 2, Max: 2}), nil)
		time.Sleep(3*retryDelay + time.Millisecond)
		r.lives("")
		if laid, _ := r.Of("t/w").laidOut(); len(laid) > 0 || r.fleet.applied != 4 {
			t.Errorf("%v are laid out after %d attempts", laid, r.fleet.applied)
		}
		r.fleet.do(func() { r.fleet.broken = nil })
		time.Sleep(retryDelay)
		r.lives("w-1 w-2")
	})
}

// AwaitFirst does not wait for a pool that does not run.
func TestAwaitFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, memory.New())
		defer r.end()
		r.fleet.stopped = true
		r.Start()
		r.Adjust(declared(three), nil)
		if err := r.AwaitFirst(t.Context()); err != nil || len(r.asked) > 0 {
			t.Errorf("%v, and %d checks", err, len(r.asked))
		}
	})
}

// A retired pool drains its instances, also with the next daemon, and is removed with the last one.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		r := newHarness(t, db)
		r.says = 3
		r.Start()
		r.Adjust(declared(three), nil)
		r.lives("w-1 w-2 w-3")
		kept := declared(three)
		if got := r.Adjust(nil, kept); !slices.Equal(got, []string{"t/w"}) {
			t.Errorf("retired are %v", got)
		}
		if got := r.Adjust(nil, kept); got != nil {
			t.Errorf("retired twice: %v", got)
		}
		synctest.Wait()
		if d, _ := r.fleet.Of("t/w/w-1"); d.Reason != retiredReason || !r.API("t/w").Retired {
			t.Errorf("the drain is %+v", d)
		}
		r.finishes("t/w/w-1")
		r.lives("w-2 w-3")
		r.end() // the daemon is killed

		next := newHarness(t, db)
		defer next.end()
		next.fleet.living, next.fleet.drains = r.fleet.living, r.fleet.drains
		if err := next.Restore(t.Context(), nil, []string{"t/w/w-2", "t/w/w-3", "t/other"}, false); err != nil {
			t.Fatal(err)
		}
		next.Start()
		if err := next.AwaitFirst(t.Context()); err != nil {
			t.Error(err)
		}
		next.lives("w-2 w-3")
		time.Sleep(time.Minute)
		next.lives("")
		if left, _, _ := db.Snapshot(t.Context(), retiredPrefix); len(left) > 0 || next.Has("t/w") {
			t.Errorf("there is still a pool, or one of %d records", len(left))
		}
		if got := next.fleet.log[len(next.fleet.log)-1]; got != "t/w is no longer in the file, and all of it is gone" {
			t.Errorf("logged last: %s", got)
		}
	})
}

// The next daemon keeps the size that the check has asked for, unless the shutdown was orderly.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		r := newHarness(t, db)
		r.says = 2
		r.Start()
		r.Adjust(declared(spec.Pool{Max: 3, Check: []string{"q"}}), nil)
		r.lives("w-1 w-2")
		r.end()
		for _, c := range []struct {
			orderly bool
			running []string
			adopted []string
			want    string
		}{
			{false, nil, nil, "w-1 w-2"},
			{false, []string{"t/w/w-3", "t/w/x/y"}, nil, "w-1 w-2 w-3"},
			{false, nil, []string{"t/w/w-2", "t/w/w-9", "t/x"}, "w-1 w-2 w-9"},
			{true, []string{"t/w/w-2"}, nil, "w-2"},
			{true, nil, nil, ""},
		} {
			next := newHarness(t, db)
			file := declared(spec.Pool{Max: 3, Check: []string{"q"}})
			if err := next.Restore(t.Context(), file, c.running, c.orderly); err != nil {
				t.Fatal(err)
			}
			more := next.Adopt(c.adopted)
			if laid, _ := next.Of("t/w").laidOut(); strings.Join(laid, " ") != c.want || more != (c.adopted != nil) {
				t.Errorf("%+v: %q are laid out, adopted: %v", c, laid, more)
			}
		}
	})
}

// The store keeps the whole template of a retired pool, except for its beliefs.
func TestRetiredIsKept(t *testing.T) {
	a := &spec.Agent{
		Name: "w", Command: []string{"x", "\x00\xff"}, Dir: "/d", Env: map[string]string{"A": "b"}, Files: []string{"f"},
		Terminal: true, Limits: spec.Limits{CPU: 1.5}, Restart: supervisor.Transient,
		Backoff: supervisor.Backoff{Kind: supervisor.Linear, Base: time.Second}, Limit: supervisor.Quarantining(3, time.Hour),
		Shutdown: spec.Shutdown{Signal: "INT", Grace: time.Minute}, Ready: spec.Ready{Log: "x"},
		Hooks: spec.Hooks{Resting: spec.Hook{Command: []string{"r"}}}, Nudge: spec.Nudge{Type: true},
		Pool: &spec.Pool{
			Min: 1, Max: 2, Check: []string{"c"}, DrainTimeout: time.Hour, Names: []string{"ada"},
			OnDeath: spec.Hook{Command: []string{"d"}},
		},
	}
	kept := savedPool{}
	if err := json.Unmarshal(retiredOp("t/w", a).Value, &kept); err != nil {
		t.Fatal(err)
	}
	a.Command[1] = "\x00\ufffd" // JSON is text
	if kept.Path != "t/w" || !reflect.DeepEqual(kept.Template, a) {
		t.Errorf("got %+v, want %+v", kept.Template, a)
	}
}
