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

// A step is one decision: what is to change together. It is taken, and holds in
// memory, at once, so that the next one is taken on what it has left; who asked
// for it is answered when it is durable. One writer takes the steps that have
// come meanwhile and writes them together. When that fails, they and all that
// was decided after them are taken back, and who can is asked again.
type step struct {
	*task.Step
	ops   []store.Op // on other keys than those of the records
	bytes int        // of ops

	done chan struct{} // closed when it is known what became of it
	err  error         // errRetry: nothing, and it has to be decided again
}

// errRetry: what a decision was taken on is not so.
var errRetry = errors.New("decide again")

// Bounds on what one write holds. One op is the marker's.
const (
	writeOps   = store.MaxOps - 1
	writeBytes = store.MaxApply - 16<<10
)

// Pace of writes whose outcome is not known.
const (
	minPause = time.Millisecond
	maxPause = 100 * time.Millisecond
)

// size returns the number of operations of the step.
func (s *step) size() int { return len(s.Changes) + len(s.ops) }

// begin lets decide take a step, without waiting for it to be durable. Where
// there is nothing to write, or decide has failed and nothing has changed, the
// step is the last one before, which the decision was taken on; nil if there is none.
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

// addOps adds to a step what is written next to the records.
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

// last is the last step that is not durable yet, nil if all are.
func (q *Queue) last() *step {
	if len(q.pending) == 0 {
		return nil
	}
	return q.pending[len(q.pending)-1]
}

// lock locks the queue once what it holds is what is stored.
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

// wait returns when it is known what became of a step.
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

// update lets decide take a step and returns when that is durable. Decide may be
// asked more than once; it is called while the queue is locked.
func (q *Queue) update(ctx context.Context, decide func(*task.Step) error) error {
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

// view lets f read, and returns when what it has seen is durable. It may be
// called more than once.
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

// write is the writer.
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
				err = store.ErrClosed // and nothing was done
			}
			q.rollBack(len(steps), err)
		}
	}
}

// nextBatch is the next steps to be written, and the ops they come to: of a key that
// several of them change, the last word.
func (q *Queue) nextBatch() (steps []*step, ops []store.Op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	count, bytes := 0, 0
	last := map[string]int{} // in ops
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

// rollBack takes back all that is decided and not written: the first steps have
// failed with err, those after them have to be decided anew.
func (q *Queue) rollBack(first int, err error) {
	q.mu.Lock()
	failed := q.pending
	q.pending = nil
	for _, s := range slices.Backward(failed) {
		s.Undo()
	}
	if errors.Is(err, errRetry) || errors.Is(err, store.ErrUnknown) {
		q.loading = make(chan struct{}) // no decision is taken before it is known what is stored
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

// reload makes what is held what is stored, however long that takes; false if
// the queue is closed.
func (q *Queue) reload() bool {
	for range attempts(q.ctx) {
		if q.load(q.ctx) == nil {
			return true
		}
	}
	return false
}

// attempts yields at once, and again after growing pauses until ctx ends.
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

// signal wakes what waits for a token.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
