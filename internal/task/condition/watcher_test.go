package condition

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/queue"
)

func TestMain(m *testing.M) {
	runtimetest.Main(m, map[string]func([]string) int{"shim": server.Main})
}

var ann = task.Actor{Name: "ann"}

// harness is a queue with its log, and the watcher of a daemon.
type harness struct {
	*testing.T
	dir      string
	log      *event.Log
	queue    *queue.Queue
	checks   *gate.Runner
	mu       sync.Mutex
	services []spec.Service
	held     bool
	watcher  *Watcher
	stop     func()
}

func newHarness(t *testing.T, s store.Store) *harness {
	t.Helper()
	log, err := event.Open(event.Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{T: t, dir: t.TempDir(), log: log}
	h.watcher = New(Options{}) // until start
	h.queue, err = queue.Open(t.Context(), queue.Options{
		Store: s, Name: "t", Pause: func(int) time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler),
		HasCheck: func(name string) bool { return spec.FindService(h.of(), name) != nil },
		LastEvent: func(ctx context.Context) (uint64, error) {
			_, last, err := log.Last(ctx, 0, nil)
			return last, err
		},
		Also: func(e task.Event) []store.Op {
			if e.Waits {
				h.watcher.Changed()
			}
			kind := map[task.Kind]event.Type{
				task.Created: event.TaskCreated, task.HeldUp: event.TaskBlocked, task.Ended: event.TaskClosed,
			}[e.Kind]
			if kind == "" {
				return nil
			}
			return []store.Op{log.Op(event.Event{Type: kind}.With(map[string]any{"id": e.Task.ID}))}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *harness) of() []spec.Service {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.services
}

// start runs a watcher until halt.
func (h *harness) start() {
	h.watcher = New(Options{
		Log: h.log, Checks: h.checks, Services: h.of, Dir: func() string { return h.dir }, Logger: slog.Default(),
		Environ: func(map[string]string) []string { return []string{"PATH=/usr/bin:/bin", runtimetest.Env()} },
		Full:    func(path string) string { return "t/" + path },
		Suspended: func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.held
		},
	})
	ctx, cancel := context.WithCancel(h.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.watcher.Run(ctx, h.queue)
	}()
	h.stop = func() {
		cancel()
		<-ended
	}
}

func (h *harness) close() {
	h.stop()
	h.queue.Close()
	if err := h.log.Close(context.Background()); err != nil {
		h.Error(err)
	}
}

// blocked returns the id of a new task that waits.
func (h *harness) blocked(kind outcome.ConditionKind, what string) string {
	h.Helper()
	made, _, err := h.queue.Create(h.Context(), ann, task.Draft{Title: "x"})
	if err == nil {
		_, err = h.queue.Block(h.Context(), ann, made.ID, outcome.Condition{Kind: kind, What: what}, "")
	}
	if err != nil {
		h.Fatal(err)
	}
	return made.ID
}

func (h *harness) task(id string) task.Task {
	h.Helper()
	t, err := h.queue.Find(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	return t
}

func (h *harness) emit(kind event.Type, path string) {
	h.Helper()
	h.log.Append(event.Event{Type: kind, Path: path})
	if err := h.log.Sync(h.Context()); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) wantStatus(want task.Status, ids ...string) {
	h.Helper()
	for _, id := range ids {
		if got := h.task(id); got.Status != want {
			h.Errorf("%s is %s (%s), want %s", id, got.Status, got.Reason, want)
		}
	}
}

// Events after the attempt open a task, also those that have come while no daemon ran.
func TestWatchEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		h := newHarness(t, s)
		h.emit(event.AgentCrashed, "t/a")
		early := h.blocked(outcome.EventOccurs, "agent.crashed:a")
		h.start()
		synctest.Wait()
		h.wantStatus(task.Blocked, early)
		later := h.blocked(outcome.EventOccurs, "agent.crashed")
		own := h.blocked(outcome.EventOccurs, "task.blocked")
		synctest.Wait()
		h.wantStatus(task.Blocked, own)
		h.emit(event.AgentCrashed, "t/b")
		synctest.Wait()
		h.wantStatus(task.Open, later)
		h.wantStatus(task.Blocked, early)
		h.stop()
		h.emit(event.AgentCrashed, "t/a")
		last := h.blocked(outcome.EventOccurs, "agent.crashed")
		h.start()
		synctest.Wait()
		h.wantStatus(task.Open, early, own)
		h.wantStatus(task.Blocked, last)
		if why := h.task(early).Reason; !strings.HasPrefix(why, "the event agent.crashed has come, number ") ||
			!strings.HasSuffix(why, ", about t/a") {
			t.Error(why)
		}
		if g := h.watcher.Gate(last); g == nil || g.Tasks != 1 || len(h.watcher.Gates()) != 1 {
			t.Errorf("%+v", g)
		}
		h.close()
	})
}

// A person is asked once about a task that waits for long, and the event still opens it.
func TestWatchAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		h := newHarness(t, s)
		h.start()
		id := h.blocked(outcome.EventOccurs, "agent.crashed")
		time.Sleep(AskAfter - time.Second)
		synctest.Wait()
		if got := h.task(id); got.Question != nil {
			t.Errorf("asked after %v: %+v", time.Since(got.BlockedAt), got.Question)
		}
		time.Sleep(maxWait + time.Second)
		synctest.Wait()
		got := h.task(id)
		if got.Question == nil || got.Status != task.Blocked {
			t.Fatalf("%+v", got)
		}
		h.emit(event.AgentCrashed, "t/a")
		synctest.Wait()
		if h.wantStatus(task.Open, id); h.task(id).Question != nil {
			t.Error("a person is still asked")
		}
		h.close()
	})
}

// While the store fails nothing is lost.
func TestWatchFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		s := storetest.NewFaults(inner, 1, storetest.Rates{})
		h := newHarness(t, s)
		id := h.blocked(outcome.EventOccurs, "task.closed")
		other, _, err := h.queue.Create(t.Context(), ann, task.Draft{Title: "y"})
		if err == nil {
			_, err = h.queue.Change(t.Context(), func(s *task.Step) (task.Task, error) {
				return s.Finish(ann, other.ID, task.Ending{})
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Fail(store.ErrFull)
		h.start()
		synctest.Wait()
		h.wantStatus(task.Blocked, id)
		s.Fail(nil)
		time.Sleep(2 * retryPause)
		synctest.Wait()
		h.wantStatus(task.Open, id)
		h.close()
	})
}

// One check runs for all tasks that wait for a service. Nothing runs while the project is suspended. A task
// whose service loses its check asks a person.
func TestWatchServices(t *testing.T) {
	s := memory.New()
	defer s.Close()
	h := newHarness(t, s)
	h.checks = gate.NewRunner(filepath.Join(h.dir, "jobs"), nil)
	h.checks.Sweep(t.Context())
	check := []string{"/bin/sh", "-c", "echo x >>runs; echo it is down; [ -e up ]"}
	h.services = []spec.Service{
		{Name: "registry", Check: check, Dir: h.dir, Timeout: limit, Interval: 10 * time.Millisecond},
		{Name: "other", Check: []string{"false"}, Dir: h.dir, Timeout: limit, Interval: time.Hour},
	}
	h.held = true
	h.start()
	defer h.close()
	var ids []string
	for range 50 {
		ids = append(ids, h.blocked(outcome.ServiceUp, "Registry"))
	}
	lost := h.blocked(outcome.ServiceUp, "other")
	command := h.blocked(outcome.CommandSucceeds, "test -e up && pwd >where")
	runs := func() int {
		b, _ := os.ReadFile(filepath.Join(h.dir, "runs"))
		return len(b) / 2
	}
	eventually(t, "the tasks are seen", func() bool { return len(h.watcher.Gates()) == 3 })
	if n := runs(); n > 0 {
		t.Errorf("%d checks have run while the project was suspended", n)
	}
	h.mu.Lock()
	h.held = false
	h.mu.Unlock()
	h.watcher.Changed()
	eventually(t, "a check fails", func() bool {
		g := h.watcher.Gate(ids[0])
		return g != nil && g.Result == "exit code 1: it is down" && g.Tasks == 50
	})
	h.wantStatus(task.Blocked, ids...)
	h.mu.Lock()
	h.services = h.services[:1]
	h.mu.Unlock()
	h.watcher.Changed()
	eventually(t, "a person is asked", func() bool { return h.task(lost).Question != nil })
	if err := os.WriteFile(filepath.Join(h.dir, "up"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are open", func() bool {
		return h.task(ids[0]).Status == task.Open && h.watcher.Gate(ids[49]) == nil
	})
	h.wantStatus(task.Open, ids...)
	began := runs()
	g := h.watcher.Gate(command)
	if g == nil || g.NextAt.Sub(g.CheckedAt).Round(time.Second) != spec.DefaultCheckEvery {
		t.Errorf("%+v", g)
	}
	h.wantStatus(task.Blocked, lost)
	if n := runs(); n > began+1 {
		t.Errorf("%d checks have run for nothing", n-began)
	}
	t.Logf("%d checks for 50 tasks", began)
}

const limit = time.Minute

// eventually polls a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in vain: " + what)
		}
	}
}
