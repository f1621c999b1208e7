package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

// A step is one decision: changes that are written together. It takes effect in memory at once,
// so later decisions build on it. Its caller gets the answer when it is durable. One writer
// collects pending steps and writes them together. If that fails, these steps and all later ones
// are rolled back, and the later ones are decided again.
type step struct {
	*task.Step
	ops   []store.Op // on other keys than those of the records
	bytes int        // of ops

	done chan struct{} // closed when the outcome is known
	err  error         // errRetry: nothing was written; decide again
}

// errRetry means that a decision was based on steps that were rolled back.
var errRetry = errors.New("decide again")

// Bounds on one write, apart from one op for the marker.
const (
	writeOps   = store.MaxOps - 1
	writeBytes = store.MaxApply - 16<<10
)

// Pauses between attempts while the outcome of a write is unknown.
const (
	minPause = time.Millisecond
	maxPause = 100 * time.Millisecond
)

// size returns the number of operations of the step.
func (s *step) size() int { return len(s.Changes) + len(s.ops) }

// begin decides a step without waiting for it to be durable. If decide fails or changes nothing,
// it returns the last pending step, on which the decision was based, and mine is false. That step
// is nil if none is pending.
func (q *Queue) begin(ctx context.Context, decide func(*task.Step) error) (s *step, mine bool, err error) {
	if err := q.lock(ctx); err != nil {
		return nil, false, err
	}
	defer q.mu.Unlock()
	q.state.Advance(time.Now())
	s = &step{Step: q.state.Step(), done: make(chan struct{})}
	if err = decide(s.Step); err == nil {
		err = q.addOps(s)
	}
	if err != nil {
		s.Undo()
	}
	if err != nil || s.size() == 0 {
		return q.last(), false, err
	}
	q.pending = append(q.pending, s)
	q.setTimer()
	signal(q.wake)
	return s, true, nil
}

// addOps adds the operations of a step next to the records.
func (q *Queue) addOps(s *step) error {
	for _, w := range s.Writes {
		s.ops = append(s.ops, writeOp(w))
	}
	if q.also != nil {
		for _, e := range s.Events {
			s.ops = append(s.ops, q.also(e)...)
		}
	}
	for _, op := range s.ops {
		s.bytes += len(op.Key) + len(op.Value)
	}
	if n := s.size(); n > task.MaxStep {
		return fmt.Errorf("%w: a step of %d ops, at most %d are allowed", store.ErrInvalid, n, task.MaxStep)
	}
	return nil
}

// last returns the last pending step, nil if there is none.
func (q *Queue) last() *step {
	if len(q.pending) == 0 {
		return nil
	}
	return q.pending[len(q.pending)-1]
}

// lock locks the queue once its memory agrees with the store.
func (q *Queue) lock(ctx context.Context) error {
	for {
		q.mu.Lock()
		switch {
		case q.closed:
			q.mu.Unlock()
			return store.ErrClosed
		case q.loading == nil:
			return nil
		}
		loading := q.loading
		q.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait returns when the outcome of a step is known.
func (s *step) wait(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
	}
}

// update decides a step and returns when it is durable. It may call decide more than once, with
// the queue locked. Tasks that are doomed because of it are cancelled; should that fail, it is done
// with a later update.
func (q *Queue) update(ctx context.Context, decide func(*task.Step) error) error {
	err := q.decide(ctx, decide)
	for err == nil && q.hasDoomed() {
		if q.decide(ctx, (*task.Step).CancelDoomed) != nil {
			break
		}
	}
	return err
}

func (q *Queue) hasDoomed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.HasDoomed()
}

// decide decides one step, see update.
func (q *Queue) decide(ctx context.Context, decide func(*task.Step) error) error {
	for {
		s, mine, err := q.begin(ctx, decide)
		if s == nil {
			return err
		}
		switch e := s.wait(ctx); {
		case mine && !errors.Is(e, errRetry):
			return e
		case !mine && e == nil:
			return err
		case !mine && ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// view calls f with the state, and returns when everything f has seen is durable. It may call f
// more than once.
func (q *Queue) view(ctx context.Context, f func(*task.State)) error {
	const maxAttempts = 10
	for n := 1; ; n++ {
		s, _, err := q.begin(ctx, func(*task.Step) error {
			f(q.state)
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

// runWriter writes pending steps until the queue is closed.
func (q *Queue) runWriter() {
	defer close(q.stopped)
	for {
		steps, ops := q.nextBatch()
		if len(steps) == 0 {
			select {
			case <-q.wake:
				continue
			case <-q.ctx.Done():
				q.rollBack(0, store.ErrClosed)
				return
			}
		}
		q.mu.Lock()
		number := q.state.Number()
		q.mu.Unlock()
		err := q.marker.apply(q.ctx, number, ops)
		switch {
		case err == nil:
			q.mu.Lock()
			q.pending = q.pending[len(steps):]
			q.mu.Unlock()
			for _, s := range steps {
				close(s.done)
			}
		case errors.Is(err, errRetry), errors.Is(err, store.ErrUnknown):
			q.rollBack(len(steps), err)
			if !q.reload() {
				q.rollBack(0, store.ErrClosed)
				return
			}
		default:
			if q.ctx.Err() != nil {
				err = store.ErrClosed // and nothing was written
			}
			q.rollBack(len(steps), err)
		}
	}
}

// nextBatch returns the next steps to write and their operations. If several steps change a key,
// only the last change is written.
func (q *Queue) nextBatch() (steps []*step, ops []store.Op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	count, bytes := 0, 0
	last := map[string]int{} // index in ops, by key
	put := func(op store.Op) {
		if op.Kind == store.Append {
			ops = append(ops, op)
		} else if i, there := last[op.Key]; there {
			ops[i] = op
		} else {
			last[op.Key] = len(ops)
			ops = append(ops, op)
		}
	}
	for _, s := range q.pending {
		changed := make([]store.Op, len(s.Changes))
		size := s.bytes
		for i, c := range s.Changes {
			changed[i] = changeOp(c)
			size += len(changed[i].Key) + len(changed[i].Value)
		}
		n := s.size()
		if len(steps) > 0 && (count+n > writeOps || bytes+size > writeBytes) {
			break
		}
		count, bytes = count+n, bytes+size
		for _, op := range changed {
			put(op)
		}
		for _, op := range s.ops {
			put(op)
		}
		steps = append(steps, s)
	}
	return steps, ops
}

// rollBack reverts all pending steps. The first ones have failed with err; the others are
// decided again.
func (q *Queue) rollBack(first int, err error) {
	q.mu.Lock()
	failed := q.pending
	q.pending = nil
	for _, s := range slices.Backward(failed) {
		s.Undo()
	}
	if errors.Is(err, errRetry) || errors.Is(err, store.ErrUnknown) {
		q.loading = make(chan struct{}) // no decision until the store has been read
	}
	closed := q.closed || errors.Is(err, store.ErrClosed)
	if q.closed = closed; closed && q.loading != nil {
		close(q.loading)
		q.loading = nil
	}
	q.mu.Unlock()
	for i, s := range failed {
		switch {
		case i < first:
			s.err = err
		case closed:
			s.err = store.ErrClosed
		default:
			s.err = errRetry
		}
		close(s.done)
	}
}

// reload reads the state from the store until that succeeds. It returns false if the queue is
// closed.
func (q *Queue) reload() bool {
	for range attempts(q.ctx) {
		if q.load(q.ctx) == nil {
			return true
		}
	}
	return false
}

// attempts yields at once, and then after growing pauses until ctx ends.
func attempts(ctx context.Context) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for pause := minPause; yield(pause); pause = min(2*pause, maxPause) {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// signal puts a token into a channel unless it has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
