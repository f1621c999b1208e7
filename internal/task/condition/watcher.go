// Package condition opens blocked tasks when what they wait for is there: an event of the log, a service of the
// file that works again, or a command that succeeds. All tasks that wait for the same have one check.
package condition

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// AskAfter is how long a task waits for a condition before a person is asked about it. It waits on, too.
const AskAfter = 24 * time.Hour

const (
	maxWait    = time.Minute      // between two looks, since the wall clock may be set
	retryPause = 5 * time.Second  // after an error of the store
	heldPause  = 10 * time.Second // until the project is looked at again while it is suspended
)

// Queue holds the tasks. *queue.Queue implements it.
type Queue interface {
	// Waits returns what blocked tasks wait for.
	Waits(context.Context) ([]task.Wait, error)
	// Unblock opens those of the tasks that still wait.
	Unblock(ctx context.Context, all []task.Wait, why string) error
	// AskAbout asks a person about a task that still waits.
	AskAbout(ctx context.Context, w task.Wait, text string) error
}

// Options configure a Watcher. All fields are required, except Checks.
type Options struct {
	Log *event.Log
	// Checks runs commands. Without it none are run.
	Checks *gate.Runner
	// Environ returns the environment of a command, and Dir the directory of those that people have written.
	Environ func(declared map[string]string) []string
	Dir     func() string
	// Services returns the services of the file.
	Services func() []spec.Service
	// Full returns the full path of a node, given an abbreviated one.
	Full func(path string) string
	// Suspended reports whether no command may run now.
	Suspended func() bool
	Logger    *slog.Logger
}

// Watcher opens blocked tasks. It is safe for concurrent use.
type Watcher struct {
	o     Options
	queue Queue         // while it runs
	wake  chan struct{} // holds a token when something may have changed
	begun time.Time     // from which durations count
	wg    sync.WaitGroup

	mu   sync.Mutex
	set  *set
	seen uint64 // the last event that was observed

	stop func() // ends the observation of events; nil if there is none
}

// New returns a Watcher. Call Run.
func New(o Options) *Watcher {
	return &Watcher{o: o, wake: make(chan struct{}, 1), begun: time.Now(), set: newSet()}
}

// Changed makes the Watcher look: tasks, services or the suspension may have changed.
func (w *Watcher) Changed() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) now() time.Duration { return time.Since(w.begun) }

// Run opens tasks of a queue until ctx ends. Call it once.
func (w *Watcher) Run(ctx context.Context, q Queue) {
	w.queue = q
	defer w.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		wake := w.wake
		for _, err := range []error{w.refresh(ctx), w.open(ctx), w.ask(ctx)} {
			if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
				w.o.Logger.Warn("cannot go on with blocked tasks; trying again", "error", err)
				wake = nil // a change of the queue that has failed wakes, too
			}
		}
		wait := w.check(ctx, maxWait)
		if wake == nil {
			wait = retryPause
		}
		select {
		case <-wake:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// refresh reads which tasks wait, and observes events while one waits for some.
func (w *Watcher) refresh(ctx context.Context) error {
	all, err := w.queue.Waits(ctx)
	if err != nil {
		return err
	}
	services := w.o.Services()
	w.mu.Lock()
	after, news := w.set.replace(all, services, w.o.Full)
	observes := w.set.observes()
	if w.stop != nil {
		after = min(after, w.seen)
	}
	w.mu.Unlock()
	if w.stop != nil && (news || !observes) {
		w.stop()
		w.stop = nil
	}
	if observes && w.stop == nil {
		w.stop = w.observe(ctx, after)
	}
	return nil
}

// observe follows the log until stop is called, which waits for the end of that.
func (w *Watcher) observe(ctx context.Context, after uint64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	w.seen = after
	w.mu.Unlock()
	ended := make(chan struct{})
	w.wg.Go(func() {
		defer close(ended)
		for ctx.Err() == nil {
			w.follow(ctx)
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		<-ended
	}
}

func (w *Watcher) follow(ctx context.Context) {
	w.mu.Lock()
	after := w.seen
	w.mu.Unlock()
	for e, err := range w.o.Log.Follow(ctx, after, event.Filter{}) {
		if err != nil {
			if ctx.Err() == nil {
				w.o.Logger.Warn("cannot read the event log; blocked tasks wait for it", "error", err)
			}
			return
		}
		w.mu.Lock()
		w.seen = e.Seq
		opens := w.set.observe(e)
		w.mu.Unlock()
		if opens {
			w.Changed()
		}
	}
}

// open opens the tasks whose condition holds.
func (w *Watcher) open(ctx context.Context) error {
	w.mu.Lock()
	byReason := map[string][]task.Wait{}
	for _, m := range w.set.met {
		byReason[m.why] = append(byReason[m.why], m.Wait)
	}
	w.mu.Unlock()
	for why, all := range byReason {
		slices.SortFunc(all, func(a, b task.Wait) int { return strings.Compare(a.ID, b.ID) })
		if err := w.queue.Unblock(ctx, all, why); err != nil {
			return err
		}
		w.mu.Lock()
		for _, done := range all {
			delete(w.set.met, done.ID)
		}
		w.mu.Unlock()
	}
	return nil
}

// ask asks people about tasks that have waited for long.
func (w *Watcher) ask(ctx context.Context) error {
	w.mu.Lock()
	all := w.set.overdue(time.Now())
	w.mu.Unlock()
	for _, q := range all {
		if err := w.queue.AskAbout(ctx, q.Wait, q.text); err != nil {
			return err
		}
	}
	return nil
}

// check runs the checks that are due, and returns how long to wait for the next.
func (w *Watcher) check(ctx context.Context, longest time.Duration) time.Duration {
	switch {
	case w.o.Checks == nil:
		return longest
	case w.o.Suspended():
		return min(longest, heldPause)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, en := range w.set.begin(w.now()) {
		command := en.check.command
		w.wg.Go(func() {
			result, done := w.o.Checks.Wait(ctx, w.checkOf(command))
			if !done || ctx.Err() != nil {
				return
			}
			w.mu.Lock()
			w.set.ended(en, result, w.now(), time.Now())
			w.mu.Unlock()
			w.Changed()
		})
	}
	return w.set.next(w.now(), longest)
}

// checkOf returns what is run for a command.
func (w *Watcher) checkOf(c command) gate.Check {
	check := gate.Check{Argv: c.argv, Dir: c.dir, Env: w.o.Environ(nil), Limit: c.limit}
	if c.line != "" {
		check.Argv, check.Dir = setting.Argv(c.line), w.o.Dir()
	}
	return check
}

// Gates returns what blocked tasks wait for, the longest wait first.
func (w *Watcher) Gates() []task.Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []task.Gate
	for _, en := range w.set.entries {
		if len(en.waits) > 0 {
			all = append(all, en.view(w.now(), time.Now()))
		}
	}
	slices.SortFunc(all, func(a, b task.Gate) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Condition.What, b.Condition.What)
	})
	return all
}

// Gate returns what a task waits for; nil if it does not wait.
func (w *Watcher) Gate(id string) *task.Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	en := w.set.tasks[id]
	if en == nil {
		return nil
	}
	g := en.view(w.now(), time.Now())
	return &g
}
