// Package queue keeps the tasks of a project durably. A Queue holds what is short of all
// tasks in memory, decides on that, and writes each decision as one step, on condition
// that no other program has written meanwhile. Many decisions share one write: see
// commit.go. Texts and comments are in the store alone.
package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// Options configure a Queue.
type Options struct {
	Store store.Store
	// Name is what the ids of new tasks begin with: that of the project.
	Name string
	// MaxClaims is how many claims of a task that states no number of its own
	// may fail before the task is parked; 0 is no limit. spec.DefaultMaxClaims if nil.
	MaxClaims func() int
	// Also returns what is to be written in one step with something that has
	// happened; it may be nil. It must be quick, and not call the queue.
	Also   func(task.Event) []store.Op
	Logger *slog.Logger // slog.Default() if nil
}

// Queue is all tasks of a project. Its methods may be called by many goroutines
// at once. Those that change something return when that is durable, with the
// errors of package task or those of the store; after store.ErrUnknown it may
// have been done.
type Queue struct {
	records records
	also    func(task.Event) []store.Op
	ctx     context.Context
	cancel  context.CancelFunc
	wake    chan struct{} // holds a token while there is something to write
	stopped chan struct{}
	// importing holds a token while beads are imported.
	importing chan struct{}

	mu      sync.Mutex
	state   *task.State
	waiters waiters
	timer   *time.Timer   // set while somebody waits and tasks wait for their time
	timerAt time.Time     // the first such time
	pending []*step       // decided, and not durable yet
	loading chan struct{} // nil; or closed when what is held is what is stored again
	closed  bool

	marker marker // the writer's own
}

// Open reads what there is to do. No incarnation lives until Begin says so: call
// Sweep once all that live are known.
func Open(ctx context.Context, o Options) (*Queue, error) {
	if o.MaxClaims == nil {
		o.MaxClaims = func() int { return spec.DefaultMaxClaims }
	}
	q := &Queue{
		records: records{store: o.Store, logger: cmp.Or(o.Logger, slog.Default()), bad: make(map[string]bool)},
		also:    o.Also, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		importing: make(chan struct{}, 1), waiters: make(waiters),
	}
	q.marker = marker{records: &q.records, nonce: rand.Text()}
	q.state = task.NewState(o.Name, o.MaxClaims, func(at task.Place) { q.waiters.wake(at, q.state.ReadyAt(at)) })
	q.ctx, q.cancel = context.WithCancel(context.Background())
	if err := q.load(ctx); err != nil {
		q.cancel()
		return nil, fmt.Errorf("opening the tasks: %w", err)
	}
	go q.runWriter()
	return q, nil
}

// Close ends the queue. What is not durable by then is refused.
func (q *Queue) Close() {
	q.cancel()
	<-q.stopped
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer != nil {
		q.timer.Stop()
	}
}

// load makes what is held what is stored. Nothing is pending meanwhile.
func (q *Queue) load(ctx context.Context) error {
	// The marker comes first: what is written after it was read makes the next
	// write of this queue conflict.
	m, err := q.marker.read(ctx)
	if err != nil {
		return err
	}
	x, number, err := q.records.loadAll(ctx)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.marker.rev = m.rev
	q.state.Replace(x, max(m.Number, number))
	for at := range q.waiters {
		q.waiters.wake(at, q.state.ReadyAt(at))
	}
	q.setTimer()
	if q.loading != nil {
		close(q.loading)
		q.loading = nil
	}
	return nil
}

// change lets decide change one task.
func (q *Queue) change(ctx context.Context, decide func(*task.Step) (task.Task, error)) (t task.Task, err error) {
	err = q.update(ctx, func(s *task.Step) (err error) {
		t, err = decide(s)
		return err
	})
	return t, err
}

// Create makes a task. Where one was made under the same key before, it is that
// one, whatever became of it, and fresh is false.
func (q *Queue) Create(ctx context.Context, actor task.Actor, d task.Draft) (t task.Task, fresh bool, err error) {
	err = q.update(ctx, func(s *task.Step) (err error) {
		t, fresh, err = s.Create(actor, d)
		return err
	})
	return t, fresh && err == nil, err
}

// Edit changes a task. An agent cannot change what somebody else has claimed.
func (q *Queue) Edit(ctx context.Context, actor task.Actor, id string, e task.Edit) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Edit(actor, id, e) })
}

// Comment adds what somebody says to a task. With the key of one of the last
// comments, which may be empty for none, it has been said already.
func (q *Queue) Comment(ctx context.Context, actor task.Actor, id, text, key string) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Comment(actor, id, text, key) })
}

// Claim binds a task to who asks: to one incarnation of an agent, until it
// closes or releases the task, or is over itself. The error is ErrNothing where
// nothing is ready. One may have claimed several tasks.
func (q *Queue) Claim(ctx context.Context, actor task.Actor, c task.Claiming) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Claim(actor, c) })
}

// Release gives a task that was claimed back: it is open again.
func (q *Queue) Release(ctx context.Context, actor task.Actor, id, reason string) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Release(actor, id, reason) })
}

// Finish closes a task, by whom it was claimed, by a person, or by an agent if
// it is not claimed. To close it once more in the same way changes nothing.
func (q *Queue) Finish(ctx context.Context, actor task.Actor, id string, e task.Ending) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Finish(actor, id, e) })
}

// Reopen makes a closed task open again.
func (q *Queue) Reopen(ctx context.Context, actor task.Actor, id, reason string) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Reopen(actor, id, reason) })
}

// Retry lets a task be done now, whatever has held it: closed, blocked, put off,
// or in progress at somebody, who loses it; a person can do so with a parked
// one, too. It still waits for other tasks.
func (q *Queue) Retry(ctx context.Context, actor task.Actor, id, reason string) (task.Task, error) {
	return q.change(ctx, func(s *task.Step) (task.Task, error) { return s.Retry(actor, id, reason) })
}

// Begin says that an incarnation lives, see task.State.Begin. Call GiveBack for what
// others of that agent have claimed.
func (q *Queue) Begin(path string, life task.Life) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.Begin(path, life)
	q.waiters.recheck(path)
}

// End says that an incarnation has ended, see task.State.End. Call GiveBack for what it
// had claimed.
func (q *Queue) End(path string, incarnation uint64, failure string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state.End(path, incarnation, failure) {
		q.waiters.recheck(path)
	}
}

// Sweep gives back what was claimed by incarnations that do not live, but those
// of agents of which it is not known, which keep names.
func (q *Queue) Sweep(ctx context.Context, keep func(path string) bool) error {
	var holders []string
	if err := q.view(ctx, func(s *task.State) { holders = s.OrphanHolders() }); err != nil {
		return err
	}
	var errs []error
	for _, path := range holders {
		if !keep(path) {
			errs = append(errs, q.ReleaseOrphans(ctx, path))
		}
	}
	return errors.Join(errs...)
}

// ReleaseOrphans makes open again what incarnations of an agent have claimed that do
// not live. It costs nothing if there is nothing.
func (q *Queue) ReleaseOrphans(ctx context.Context, path string) error {
	const some = task.MaxStep / 4
	for {
		if err := q.lock(ctx); err != nil {
			return err
		}
		left := q.state.HasOrphans(path)
		q.mu.Unlock()
		if !left {
			return nil
		}
		if err := q.update(ctx, func(s *task.Step) error { return s.ReleaseOrphans(path, some) }); err != nil {
			return fmt.Errorf("releasing the tasks of %s: %w", path, err)
		}
	}
}

// Purge removes tasks that are ephemeral and were closed for as long as ttl, and
// returns how many. What still waits for its children stays.
func (q *Queue) Purge(ctx context.Context, ttl time.Duration) (n int, err error) {
	old := time.Now().Add(-ttl)
	var gone []string
	if err := q.view(ctx, func(s *task.State) { gone = s.Outdated(old) }); err != nil {
		return 0, err
	}
	total := len(gone)
	for len(gone) > 0 {
		var rest []string
		err := q.update(ctx, func(s *task.Step) error {
			rest = s.Purge(gone, old)
			return nil
		})
		if err != nil {
			return total - len(gone), fmt.Errorf("removing old tasks: %w", err)
		}
		gone = rest
	}
	return total, nil
}
