package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// A step is one decision: what is to change together. It is taken, and holds in
// memory, at once, so that the next one is taken on what it has left; who asked
// for it is answered when it is durable. One writer takes the steps that have
// come meanwhile and writes them together. When that fails, they and all that
// was decided after them are taken back, and who can is asked again.
type step struct {
	q       *Queue
	changes []change
	ops     []store.Op // on other keys than those of the records
	bytes   int        // of ops

	done chan struct{} // closed when it is known what became of it
	err  error         // errAgain: nothing, and it has to be decided anew
}

type change struct {
	id            string
	before, after *record
}

// errAgain: what a decision was taken on is not so.
var errAgain = errors.New("decide again")

// Bounds on what one write holds. One op is the marker's.
const (
	writeOps   = store.MaxOps - 1
	writeBytes = store.MaxApply - 16<<10
	stepOps    = 40 // of one step at most
)

// Pace of writes whose outcome is not known.
const (
	minPause = time.Millisecond
	maxPause = 100 * time.Millisecond
)

// put replaces a task, remove removes it.
func (s *step) put(r *record) { s.set(r.ID, r) }

func (s *step) remove(id string) { s.set(id, nil) }

func (s *step) set(id string, r *record) {
	s.changes = append(s.changes, change{id, s.q.index.set(id, r), r})
}

// also adds ops on other keys.
func (s *step) also(ops ...store.Op) {
	for _, op := range ops {
		s.ops = append(s.ops, op)
		s.bytes += len(op.Key) + len(op.Value)
	}
}

// undo takes back what a step has changed in memory.
func (s *step) undo() {
	for _, c := range slices.Backward(s.changes) {
		s.q.index.set(c.id, c.before)
	}
}

func (s *step) empty() bool { return len(s.changes) == 0 && len(s.ops) == 0 }

// begin lets decide take a step, without waiting for it to be durable. Where
// there is nothing to write, or decide has failed and nothing has changed, the
// step is the last one before, which the decision was taken on; nil if there is none.
func (q *Queue) begin(ctx context.Context, decide func(*step) error) (s *step, mine bool, err error) {
	if err := q.lock(ctx); err != nil {
		return nil, false, err
	}
	defer q.mu.Unlock()
	q.index.advance(time.Now())
	s = &step{q: q, done: make(chan struct{})}
	err = decide(s)
	if n := len(s.changes) + len(s.ops); err == nil && n > stepOps {
		err = fmt.Errorf("%w: a step of %d ops, at most %d are allowed", store.ErrInvalid, n, stepOps)
	}
	if err != nil {
		s.undo()
	}
	if err != nil || s.empty() {
		return q.last(), false, err
	}
	q.pending = append(q.pending, s)
	q.setAlarm()
	q.poke()
	return s, true, nil
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
		case q.loaded == nil:
			return nil
		}
		loaded := q.loaded
		q.mu.Unlock()
		select {
		case <-loaded:
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
func (q *Queue) update(ctx context.Context, decide func(*step) error) error {
	for {
		s, mine, err := q.begin(ctx, decide)
		if s == nil {
			return err
		}
		switch e := s.wait(ctx); {
		case mine && !errors.Is(e, errAgain):
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
func (q *Queue) view(ctx context.Context, f func(*index)) error {
	const patience = 10
	for n := 1; ; n++ {
		s, _, err := q.begin(ctx, func(*step) error {
			f(&q.index)
			return nil
		})
		if err != nil {
			return err
		}
		if err = s.wait(ctx); err == nil || n == patience || ctx.Err() != nil {
			return err
		}
	}
}

// poke wakes the writer.
func (q *Queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// write is the writer.
func (q *Queue) write() {
	defer close(q.ended)
	for {
		steps, ops := q.take()
		if len(steps) == 0 {
			select {
			case <-q.wake:
				continue
			case <-q.ctx.Done():
				q.fail(0, store.ErrClosed)
				return
			}
		}
		err := q.apply(ops)
		switch {
		case err == nil:
			q.mu.Lock()
			q.pending = q.pending[len(steps):]
			q.mu.Unlock()
			for _, s := range steps {
				close(s.done)
			}
		case errors.Is(err, errAgain), errors.Is(err, store.ErrUnknown):
			q.fail(len(steps), err)
			if !q.reload() {
				q.fail(0, store.ErrClosed)
				return
			}
		default:
			if q.ctx.Err() != nil {
				err = store.ErrClosed // and nothing was done
			}
			q.fail(len(steps), err)
		}
	}
}

// take is the next steps to be written, and the ops they come to: of a key that
// several of them change, the last word.
func (q *Queue) take() (steps []*step, ops []store.Op) {
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
		changed := make([]store.Op, len(s.changes))
		size := s.bytes
		for i, c := range s.changes {
			changed[i] = q.op(c)
			size += len(changed[i].Key) + len(changed[i].Value)
		}
		n := len(s.changes) + len(s.ops)
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

// op is what writes a change of a record.
func (q *Queue) op(c change) store.Op {
	key := q.recordKey(c.id)
	if c.after == nil {
		return store.Op{Kind: store.Delete, Key: key}
	}
	value, _ := json.Marshal(c.after) // texts, numbers and times
	return store.Op{Kind: store.Put, Key: key, Value: value}
}

// fail takes back all that is decided and not written: the first steps have
// failed with err, those after them have to be decided anew.
func (q *Queue) fail(first int, err error) {
	q.mu.Lock()
	failed := q.pending
	q.pending = nil
	for _, s := range slices.Backward(failed) {
		s.undo()
	}
	if errors.Is(err, errAgain) || errors.Is(err, store.ErrUnknown) {
		q.loaded = make(chan struct{}) // nobody decides before it is known what is stored
	}
	closed := q.closed || errors.Is(err, store.ErrClosed)
	if q.closed = closed; closed && q.loaded != nil {
		close(q.loaded)
		q.loaded = nil
	}
	q.mu.Unlock()
	for i, s := range failed {
		switch {
		case i < first:
			s.err = err
		case closed:
			s.err = store.ErrClosed
		default:
			s.err = errAgain
		}
		close(s.done)
	}
}

// marker is the record that every write changes, on condition that it is as the
// one before has left it: whoever else writes is found out, and where the
// outcome of a write is not known, it tells.
type marker struct {
	Name   string `json:"name"`   // of the last write
	Number uint64 `json:"number"` // the last that a task was given
}

// apply writes ops until it is known whether they were written. Its error is
// errAgain if somebody else has written, ErrUnknown if the queue is closed
// before it is known, and else that of the store, which has done nothing.
func (q *Queue) apply(ops []store.Op) error {
	q.mu.Lock()
	m := marker{Name: fmt.Sprintf("%s/%d", q.nonce, q.writes), Number: q.number}
	q.mu.Unlock()
	q.writes++
	value, _ := json.Marshal(m)
	ops = append([]store.Op{{Kind: store.Put, Key: q.markerKey(), Value: value}}, ops...)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rev, err := q.o.Store.Apply(q.ctx, store.Fence{}, []store.Cond{{Key: q.markerKey(), Rev: q.markerRev}}, ops)
		if err == nil {
			q.markerRev = rev
			return nil
		}
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return err
		}
		there, lookErr := q.readMarker(q.ctx)
		switch {
		case lookErr != nil && q.ctx.Err() != nil:
			return fmt.Errorf("%w; looking whether it was done: %w", store.ErrUnknown, lookErr)
		case lookErr != nil: // look once more; to write once more does no harm either
		case there.name == m.Name:
			q.markerRev = there.rev
			return nil
		case there.rev != q.markerRev:
			return errAgain
		}
		select {
		case <-time.After(pause):
		case <-q.ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(q.ctx))
		}
	}
}

type markerState struct {
	rev    store.Rev
	name   string
	number uint64
}

func (q *Queue) readMarker(ctx context.Context) (m markerState, err error) {
	records, _, err := q.o.Store.Snapshot(ctx, q.markerKey())
	if err != nil {
		return m, fmt.Errorf("reading %s: %w", q.markerKey(), err)
	}
	for _, r := range records {
		var stored marker
		if r.Key == q.markerKey() {
			if err := json.Unmarshal(r.Value, &stored); err != nil {
				q.complain(r.Key, err)
			}
			m = markerState{r.Rev, stored.Name, stored.Number}
		}
	}
	return m, nil
}

// reload makes what is held what is stored, however long that takes; false if
// the queue is closed.
func (q *Queue) reload() bool {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := q.load(q.ctx)
		if err == nil {
			return true
		}
		select {
		case <-time.After(pause):
		case <-q.ctx.Done():
			return false
		}
	}
}
