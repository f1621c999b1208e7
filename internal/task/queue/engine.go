package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// engine holds the State in memory, and keeps the store equal to it. Decisions take effect in memory at once, and are
// written together by one writer; see step. A reader chooses what it relies on: view waits until what it has seen is
// durable, look until memory and store agree, and peek for nothing.
type engine struct {
	records *records
	also    func(task.Event) []store.Op
	ctx     context.Context // ends when the engine is closed
	cancel  context.CancelFunc
	wake    chan struct{} // holds a token while there is something to write
	stopped chan struct{}

	mu      sync.Mutex
	state   *task.State
	waiters waiters
	timer   *time.Timer   // set while there are waiters and deferred tasks
	timerAt time.Time     // the time it is set for
	pending []*step       // decided but not durable yet
	loading chan struct{} // while reading from the store; closed when done
	closed  bool

	marker marker // used by the writer only
}

// newEngine reads the state from the store, and starts the writer. Call close.
func newEngine(ctx context.Context, r *records, c task.Config, also func(task.Event) []store.Op) (*engine, error) {
	e := &engine{
		records: r, also: also, wake: make(chan struct{}, 1), stopped: make(chan struct{}), waiters: make(waiters),
		marker: marker{records: r, nonce: rand.Text()},
	}
	c.Ready = func(at task.Place) { e.waiters.wake(at, e.state.ReadyAt(at)) }
	e.state = task.NewState(c)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.load(ctx); err != nil {
		e.cancel()
		return nil, err
	}
	go e.runWriter()
	return e, nil
}

// close stops the writer. Steps that are not durable fail.
func (e *engine) close() {
	e.cancel()
	<-e.stopped
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// load reads the state from the store. No steps are pending meanwhile.
func (e *engine) load(ctx context.Context) error {
	// Read the marker first: if something is written after that, the next write of this engine
	// conflicts.
	m, err := e.marker.read(ctx)
	if err != nil {
		return err
	}
	x, number, err := e.records.loadAll(ctx)
	if err != nil {
		return err
	}
	pools, err := e.records.pools(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.marker.rev = m.rev
	e.state.Replace(x, pools, max(m.Number, number))
	for at := range e.waiters {
		e.waiters.wake(at, e.state.ReadyAt(at))
	}
	e.setTimer()
	if e.loading != nil {
		close(e.loading)
		e.loading = nil
	}
	return nil
}

// lock locks the engine once its memory agrees with the store.
func (e *engine) lock(ctx context.Context) error {
	for {
		e.mu.Lock()
		switch {
		case e.closed:
			e.mu.Unlock()
			return store.ErrClosed
		case e.loading == nil:
			return nil
		}
		loading := e.loading
		e.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update decides a step and returns when it is durable. It may call decide more than once, with the engine locked.
// Tasks that are doomed because of it are cancelled; should that fail, it is done with a later update.
func (e *engine) update(ctx context.Context, decide func(*task.Step) error) error {
	err := e.decide(ctx, decide)
	for err == nil && e.hasDoomed() {
		if e.decide(ctx, (*task.Step).CancelDoomed) != nil {
			break
		}
	}
	return err
}

func (e *engine) hasDoomed() (doomed bool) {
	e.peek(func(s *task.State) { doomed = s.HasDoomed() })
	return doomed
}

// decide decides one step, see update.
func (e *engine) decide(ctx context.Context, decide func(*task.Step) error) error {
	for {
		s, mine, err := e.propose(ctx, decide)
		if s == nil {
			return err
		}
		switch outcome := s.wait(ctx); {
		case mine && !errors.Is(outcome, errRetry):
			return outcome
		case !mine && outcome == nil:
			return err
		case !mine && ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// propose decides a step without waiting for it to be durable. If decide fails or changes nothing,
// it returns the last pending step, on which the decision was based, and mine is false. That step
// is nil if none is pending.
func (e *engine) propose(ctx context.Context, decide func(*task.Step) error) (s *step, mine bool, err error) {
	if err := e.lock(ctx); err != nil {
		return nil, false, err
	}
	defer e.mu.Unlock()
	e.state.Advance(time.Now())
	s = &step{Step: e.state.Step(), done: make(chan struct{})}
	if err = decide(s.Step); err == nil {
		err = s.addOps(e.also)
	}
	if err != nil {
		s.Undo()
	}
	if err != nil || s.size() == 0 {
		return e.last(), false, err
	}
	e.pending = append(e.pending, s)
	e.setTimer()
	signal(e.wake)
	return s, true, nil
}

// last returns the last pending step, nil if there is none.
func (e *engine) last() *step {
	if len(e.pending) == 0 {
		return nil
	}
	return e.pending[len(e.pending)-1]
}

// view calls f with the state, and returns when everything f has seen is durable. It may call f
// more than once.
func (e *engine) view(ctx context.Context, f func(*task.State)) error {
	const maxAttempts = 10
	for n := 1; ; n++ {
		s, _, err := e.propose(ctx, func(*task.Step) error {
			f(e.state)
			return nil
		})
		if err != nil {
			return err
		}
		if err = s.wait(ctx); err == nil || n == maxAttempts || ctx.Err() != nil {
			return err
		}
	}
}

// look calls f with the state once that agrees with the store. What f sees may not be durable.
func (e *engine) look(ctx context.Context, f func(*task.State)) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	f(e.state)
	return nil
}

// peek calls f with the state as it is.
func (e *engine) peek(f func(*task.State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.state)
}
