package event

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

const maxPrefix = 128

// bounds returns the bounds on one batch in a store. One op is the marker's.
func bounds(s store.Store) (ops, bytes int) {
	ops = store.MaxOpsOf(s) - 1
	return ops, store.MaxApply - 4*store.MaxKey - ops*maxPrefix
}

// loop is the writer: it writes the events that have arrived since its last write as one batch.
func (l *Log) loop() {
	defer close(l.ended)
	var batch []pending
	over := false // when the batch is empty
	retry := time.Duration(0)
	prune := time.NewTimer(0)
	defer prune.Stop()
	for {
		if len(batch) == 0 {
			l.waitForBatch()
			batch, over = l.take()
		}
		if len(batch) > 0 {
			err := l.write(batch)
			if err == nil {
				l.finish(batch, true)
				batch, retry = nil, 0
				l.written = time.Now()
				l.recover()
				continue
			}
			if errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFenced) { // none will be accepted any more
				l.setErr(err)
				return
			}
			if errors.Is(err, store.ErrInvalid) { // a bug, which must not stop the log
				l.logger.Error("events cannot be written", "count", len(batch), "error", err)
				l.finish(batch, false)
				batch = nil
				continue
			}
			retry = min(max(2*retry, minRetry), maxRetry)
			l.degrade(err, retry)
			select {
			case <-time.After(retry):
			case <-l.ctx.Done():
				return
			}
			continue
		}
		if over {
			return
		}
		if l.retention.due() {
			prune.Reset(0)
		}
		select {
		case <-l.wake:
		case <-prune.C:
			begun := time.Now()
			more, err := l.retention.step(l.ctx)
			if err != nil && l.ctx.Err() == nil {
				l.logger.Warn("old events cannot be removed", "error", err)
			}
			if more {
				prune.Reset(max(minPause, time.Since(begun))) // leave half of the disk time to others
			} else {
				prune.Reset(pruneEvery)
			}
		}
	}
}

// waitForBatch delays a batch, unless a caller waits for it to be written. Events come in twos
// and threes: an exit, a decision, a start. Writing the first one immediately would cost a commit
// for each. It would also take processor time from the restart that the events are about. While a
// large fleet starts or stops, one batch follows the other. From the burstBatches-th in a row on,
// the delay is burstDelay.
func (l *Log) waitForBatch() {
	l.mu.Lock()
	now := len(l.buffer) == 0 || l.closing
	l.mu.Unlock()
	if now {
		return
	}
	delay := batchDelay
	if time.Since(l.written) >= 2*batchDelay {
		l.inRow = 0
	} else if l.inRow++; l.inRow >= burstBatches {
		delay = burstDelay
	}
	select {
	case <-time.After(delay):
	case <-l.flushNow:
	case <-l.ctx.Done():
	}
}

// take takes a batch from the buffer. A report of dropped events comes first. over means that the batch is empty and
// nothing will be added: both must be known at the same time, or the last events are lost.
func (l *Log) take() (batch []pending, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes, ops := 0, 0
	if d := l.dropped; d.Count > 0 {
		e := Event{
			Time: d.Last, Type: EventsDropped, Actor: l.cfg.Writer,
			Message: fmt.Sprintf("%d events were not kept, since the store took none", d.Count),
		}.With(d)
		value, _ := e.MarshalJSON()
		batch = append(batch, pending{value: value, time: e.Time})
		bytes, ops = len(value), 1
		l.dropped = Dropped{}
	}
	n := 0
	for n < len(l.buffer) {
		p := l.buffer[n]
		bytes += size(p)
		ops += 1 + len(p.with)
		if len(batch) > 0 && (bytes > l.batchBytes || ops > l.batchOps) {
			break
		}
		batch = append(batch, p)
		l.bytes -= size(p)
		n++
	}
	l.buffer = l.buffer[n:]
	if len(l.buffer) == 0 {
		l.buffer = nil
	}
	l.writing = len(batch)
	return batch, l.closing && len(batch) == 0
}

// finish wakes the callers that wait for a batch, which was written or is dropped.
func (l *Log) finish(batch []pending, written bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range batch {
		if written {
			l.retention.recent += int64(len(p.value))
		} else {
			l.drop(p)
		}
	}
	l.writing = 0
	l.broadcast()
}

// write writes a batch exactly once, whatever errors the store returns. Each batch also writes
// its name to the record of this writer, on the condition that the record is unchanged since the
// batch before. If the outcome is unknown, the record tells it, and a repetition cannot succeed
// twice.
func (l *Log) write(batch []pending) error {
	if l.marker.Key == "" {
		if err := l.readMarker(); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s/%d", l.nonce, l.batches)
	if string(l.marker.Value) == name {
		l.batches++ // the previous attempt was done after all
		return nil
	}
	ops := []store.Op{{Kind: store.Put, Key: l.markerKey(), Value: []byte(name)}}
	for _, p := range batch {
		ops = append(ops, store.Op{Kind: store.Append, Key: l.prefix, Value: p.value})
	}
	ops = append(ops, lastOps(batch)...)
	rev, err := l.store.Apply(l.ctx, store.Fence{}, []store.Cond{{Key: l.markerKey(), Rev: l.marker.Rev}}, ops)
	switch {
	case err == nil:
		l.marker.Rev, l.marker.Value = rev, []byte(name)
		l.batches++
		return nil
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrConflict):
		if readErr := l.readMarker(); readErr != nil {
			l.marker = store.Record{} // the next attempt reads it again
			return err
		}
		if string(l.marker.Value) == name {
			l.batches++
			return nil
		}
	}
	return err
}

// lastOps returns the ops that come with a batch. It keeps only the last op for each key, as an
// Apply may change a key only once.
func lastOps(batch []pending) []store.Op {
	var ops []store.Op
	seen := map[string]bool{}
	for _, p := range slices.Backward(batch) {
		for _, op := range slices.Backward(p.with) {
			if !seen[op.Key] {
				seen[op.Key] = true
				ops = append(ops, op)
			}
		}
	}
	return ops
}

// readMarker reads the record of this writer. If it does not exist, its revision is 0.
func (l *Log) readMarker() error {
	marker, err := store.Get(l.ctx, l.store, l.markerKey())
	if err != nil {
		return err
	}
	marker.Key = l.markerKey()
	l.marker = marker
	return nil
}

// degrade records that the store accepts no writes: immediately in the logger, and in the log
// once the store recovers. Conflicts and unknown outcomes pass soon, so they count only if they
// persist.
func (l *Log) degrade(err error, retry time.Duration) {
	l.setErr(err)
	passing := errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknown)
	if passing && retry < degradedAfter || errors.Is(err, context.Canceled) || !l.degraded.IsZero() {
		return
	}
	l.degraded, l.reason = time.Now(), err
	l.logger.Warn("the store takes no events, keeping them in memory", "error", err)
	l.Append(Event{Type: StoreDegraded, Actor: l.cfg.Writer,
		Message: err.Error()}.With(Degraded{Error: err.Error(), Since: l.degraded.UTC()}))
}

// recover records that the store accepts writes again.
func (l *Log) recover() {
	l.setErr(nil)
	if l.degraded.IsZero() {
		return
	}
	e := Event{
		Type: StoreRecovered, Actor: l.cfg.Writer,
		Message: fmt.Sprintf("the store takes writes again after %v", time.Since(l.degraded).Round(time.Millisecond)),
	}.With(Degraded{Error: l.reason.Error(), Since: l.degraded.UTC()})
	l.degraded, l.reason = time.Time{}, nil
	l.logger.Info(e.Message)
	l.Append(e)
}

func (l *Log) setErr(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && err != nil {
		l.broadcast() // ends the wait of SyncTo
	}
	l.err = err
}
