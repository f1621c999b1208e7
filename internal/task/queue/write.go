package queue

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
)

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

// runWriter writes pending steps until the engine is closed.
func (e *engine) runWriter() {
	defer close(e.stopped)
	for {
		steps, ops := e.nextBatch()
		if len(steps) == 0 {
			select {
			case <-e.wake:
				continue
			case <-e.ctx.Done():
				e.rollBack(0, store.ErrClosed)
				return
			}
		}
		var number uint64
		e.peek(func(s *task.State) { number = s.Number() })
		err := e.marker.apply(e.ctx, number, ops)
		switch {
		case err == nil:
			e.mu.Lock()
			e.pending = e.pending[len(steps):]
			e.mu.Unlock()
			for _, s := range steps {
				close(s.done)
			}
		case errors.Is(err, errRetry), errors.Is(err, store.ErrUnknown):
			e.rollBack(len(steps), err)
			if !e.reload() {
				e.rollBack(0, store.ErrClosed)
				return
			}
		default:
			if e.ctx.Err() != nil {
				err = store.ErrClosed // and nothing was written
			}
			e.rollBack(len(steps), err)
		}
	}
}

// nextBatch returns the next steps to write and their operations. If several steps change a key,
// only the last change is written.
func (e *engine) nextBatch() (steps []*step, ops []store.Op) {
	e.mu.Lock()
	defer e.mu.Unlock()
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
	for _, s := range e.pending {
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
func (e *engine) rollBack(first int, err error) {
	e.mu.Lock()
	failed := e.pending
	e.pending = nil
	for _, s := range slices.Backward(failed) {
		s.Undo()
	}
	if errors.Is(err, errRetry) || errors.Is(err, store.ErrUnknown) {
		e.loading = make(chan struct{}) // no decision until the store has been read
	}
	closed := e.closed || errors.Is(err, store.ErrClosed)
	if e.closed = closed; closed && e.loading != nil {
		close(e.loading)
		e.loading = nil
	}
	e.mu.Unlock()
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

// reload reads the state from the store until that succeeds. It returns false if the engine is
// closed.
func (e *engine) reload() bool {
	for range attempts(e.ctx) {
		if e.load(e.ctx) == nil {
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
