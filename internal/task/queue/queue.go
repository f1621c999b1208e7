// Package queue stores the tasks of a project. A Queue holds all tasks in memory, without texts and
// comments. It decides there and writes each decision as one step, on condition that no other
// program has written meanwhile. Many decisions share one write; see engine.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// Options configure a Queue.
type Options struct {
	Store store.Store
	// Name is the name of the project, with which the ids of new tasks begin.
	Name string
	// MaxClaims returns after how many failed claims a task is parked that has no number of its
	// own; 0 means never. nil means spec.DefaultMaxClaims.
	MaxClaims func() int
	// PoolLimit returns when the tasks of a pool are paused; nil means never.
	PoolLimit func() pools.Limit
	// Pause returns the pause after the nth attempt in a row without a result; nil means
	// task.Pause.
	Pause func(n int) time.Duration
	// HasCheck reports whether a command tells if a service works; nil means never.
	HasCheck func(service string) bool
	// LastEvent returns the number of the last event of the log; nil means 0.
	LastEvent func(context.Context) (uint64, error)
	// Also returns operations to write together with an event; it may be nil. It must be quick
	// and must not call the queue.
	Also   func(task.Event) []store.Op
	Logger *slog.Logger // slog.Default() if nil
}

// Queue holds all tasks of a project. It is safe for concurrent use. Methods that change something
// return when the change is durable. Errors are those of package task or of the store; after
// store.ErrUnknown the change may have happened.
type Queue struct {
	engine    *engine
	records   *records
	head      func(context.Context) (uint64, error) // Options.LastEvent
	importing chan struct{}                         // holds a token during an import
}

// Open reads the tasks. Initially no incarnation is alive: call Begin for each one, and then
// Sweep.
func Open(ctx context.Context, o Options) (*Queue, error) {
	if o.MaxClaims == nil {
		o.MaxClaims = func() int { return spec.DefaultMaxClaims }
	}
	if o.Pause == nil {
		o.Pause = task.Pause
	}
	if o.PoolLimit == nil {
		o.PoolLimit = func() pools.Limit { return pools.Limit{} }
	}
	if o.HasCheck == nil {
		o.HasCheck = func(string) bool { return false }
	}
	if o.LastEvent == nil {
		o.LastEvent = func(context.Context) (uint64, error) { return 0, nil }
	}
	q := &Queue{
		records: &records{store: o.Store, logger: cmp.Or(o.Logger, slog.Default()), bad: make(map[string]bool)},
		head:    o.LastEvent, importing: make(chan struct{}, 1),
	}
	var err error
	q.engine, err = newEngine(ctx, q.records, task.Config{
		Project: o.Name, MaxClaims: o.MaxClaims, Pause: o.Pause, PoolLimit: o.PoolLimit, HasCheck: o.HasCheck,
	}, o.Also)
	if err != nil {
		return nil, fmt.Errorf("opening the tasks: %w", err)
	}
	return q, nil
}

// Close stops the queue. Steps that are not durable fail.
func (q *Queue) Close() { q.engine.close() }

// Update decides one step, and returns when it is durable. It may call decide more than once, which must be quick and
// must not call the queue.
func (q *Queue) Update(ctx context.Context, decide func(*task.Step) error) error {
	return q.engine.update(ctx, decide)
}

// Change is Update for a step about one task, such as task.Step.Edit. It returns the task.
func (q *Queue) Change(ctx context.Context, decide func(*task.Step) (task.Task, error)) (t task.Task, err error) {
	err = q.Update(ctx, func(s *task.Step) (err error) {
		t, err = decide(s)
		return err
	})
	return t, err
}

// View calls f with the tasks, and returns when everything f has seen is durable. It may call f more than once, which
// must be quick and must not call the queue.
func (q *Queue) View(ctx context.Context, f func(*task.State)) error { return q.engine.view(ctx, f) }

// Create creates a task; see task.Step.Create.
func (q *Queue) Create(ctx context.Context, actor task.Actor, d task.Draft) (t task.Task, fresh bool, err error) {
	err = q.Update(ctx, func(s *task.Step) (err error) {
		t, fresh, err = s.Create(actor, d)
		return err
	})
	return t, fresh && err == nil, err
}

// Report ends the attempt of a claimant; see task.Step.Report.
func (q *Queue) Report(ctx context.Context, actor task.Actor, id string, o outcome.Outcome) (task.Task, error) {
	last, err := q.lastEvent(ctx, o.Report().Condition)
	if err != nil {
		return task.Task{}, err
	}
	return q.Change(ctx, func(s *task.Step) (task.Task, error) { return s.Report(actor, id, o, last) })
}

// Begin records that an incarnation has started; see task.State.Begin. Call ReleaseOrphans for the
// claims of earlier ones.
func (q *Queue) Begin(path string, life task.Life) {
	q.engine.peek(func(s *task.State) { s.Begin(path, life) })
	q.engine.recheck(path)
}

// End records that an incarnation has ended; see task.State.End. Call ReleaseOrphans for its
// claims.
func (q *Queue) End(path string, incarnation uint64, exit task.Exit) {
	var current bool
	q.engine.peek(func(s *task.State) { current = s.End(path, incarnation, exit) })
	if current {
		q.engine.recheck(path)
	}
}

// Sweep releases the tasks of all ended incarnations, except those of agents that keep names.
func (q *Queue) Sweep(ctx context.Context, keep func(path string) bool) error {
	var holders []string
	if err := q.View(ctx, func(s *task.State) { holders = s.OrphanHolders() }); err != nil {
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

// ReleaseOrphans opens tasks again that ended incarnations of an agent have claimed. It is cheap
// if there are none.
func (q *Queue) ReleaseOrphans(ctx context.Context, path string) error {
	const some = task.MaxStep / 8
	for {
		var left bool
		err := q.engine.look(ctx, func(s *task.State) { left = s.HasOrphans(path) })
		if err != nil || !left {
			return err
		}
		if err := q.Update(ctx, func(s *task.Step) error { return s.ReleaseOrphans(path, some) }); err != nil {
			return fmt.Errorf("releasing the tasks of %s: %w", path, err)
		}
	}
}

// Purge removes ephemeral tasks that were closed at least ttl ago, and returns their number. Tasks
// with open children stay.
func (q *Queue) Purge(ctx context.Context, ttl time.Duration) (n int, err error) {
	old := time.Now().Add(-ttl)
	var gone []string
	if err := q.View(ctx, func(s *task.State) { gone = s.Outdated(old) }); err != nil {
		return 0, err
	}
	total := len(gone)
	for len(gone) > 0 {
		var rest []string
		err := q.Update(ctx, func(s *task.Step) error {
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
