package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// retention removes events that are too old or too many. It tracks the log as blocks of events,
// so a log of millions needs little memory. It belongs to the writer goroutine.
type retention struct {
	log    *Log
	blocks []block
	last   uint64 // the last event that is in a block
	bytes  int64  // of all blocks
	recent int64  // bytes written since the last step
}

// block is a run of consecutive events.
type block struct {
	first, last uint64
	bytes       int64
	newest      time.Time // the latest time of its events
}

const blockSize = 64 // numbers in a block, which is removed in one Apply

// due reports whether so much was written that the next step should not wait for its time.
func (r *retention) due() bool {
	_, maxBytes := r.log.bounds()
	return maxBytes > 0 && r.recent > maxBytes/8
}

// step does a part of the work: it reads a page of new events, or removes the first block. more
// reports whether there may be more to do. Writes and waiting readers get their turn between two
// steps.
func (r *retention) step(ctx context.Context) (more bool, err error) {
	maxAge, maxBytes := r.log.bounds()
	r.recent = 0
	if maxAge <= 0 && maxBytes <= 0 {
		return false, nil
	}
	if more, err := r.look(ctx, maxBytes); more || err != nil {
		return more, err
	}
	if len(r.blocks) == 0 {
		return false, nil
	}
	b := r.blocks[0]
	old := maxAge > 0 && time.Since(b.newest) > maxAge
	much := maxBytes > 0 && r.bytes > maxBytes && len(r.blocks) > 1
	if !old && !much {
		return false, nil
	}
	if err := r.remove(ctx, b); err != nil {
		return false, err
	}
	r.blocks = r.blocks[1:]
	r.bytes -= b.bytes
	return true, nil
}

// look adds a page of events that are not in a block yet.
func (r *retention) look(ctx context.Context, maxBytes int64) (more bool, err error) {
	records, _, err := r.log.store.Scan(ctx, r.log.prefix, store.SequenceKey(r.log.prefix, r.last), 4*blockSize)
	if err != nil || len(records) == 0 {
		return false, err
	}
	for _, rec := range records {
		seq, ok := store.ParseSequenceKey(r.log.prefix, rec.Key)
		if !ok {
			return false, nil // keys of others come last
		}
		// An event that cannot be read is removed with its neighbours.
		var e struct{ Time time.Time }
		json.Unmarshal(rec.Value, &e)
		r.add(seq, int64(len(rec.Value)), e.Time, maxBytes)
	}
	return true, nil
}

func (r *retention) add(seq uint64, bytes int64, t time.Time, maxBytes int64) {
	n := len(r.blocks)
	if n == 0 || seq-r.blocks[n-1].first >= blockSize || maxBytes > 0 && r.blocks[n-1].bytes > maxBytes/16 {
		r.blocks = append(r.blocks, block{first: seq})
		n++
	}
	b := &r.blocks[n-1]
	b.last = seq
	b.bytes += bytes
	if t.After(b.newest) {
		b.newest = t
	}
	r.last = seq
	r.bytes += bytes
}

// remove deletes a block, and records in the same step up to which number events are gone.
func (r *retention) remove(ctx context.Context, b block) error {
	l := r.log
	ops := []store.Op{{Kind: store.Put, Key: l.prunedKey(), Value: strconv.AppendUint(nil, b.last, 10)}}
	for seq := b.first; seq <= b.last; seq++ {
		ops = append(ops, store.Op{Kind: store.Delete, Key: store.SequenceKey(l.prefix, seq)})
	}
	// Repeating this after an unknown outcome does no harm.
	for {
		_, err := l.store.Apply(ctx, store.Fence{}, nil, ops)
		if !errors.Is(err, store.ErrUnknown) {
			return err
		}
	}
}

// pruned returns the number of the last event that was removed, or 0.
func (l *Log) pruned(ctx context.Context) (uint64, error) {
	r, err := store.Get(ctx, l.store, l.prunedKey())
	if err != nil || r.Rev == 0 {
		return 0, err
	}
	n, err := strconv.ParseUint(string(r.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("record %s: %w", l.prunedKey(), err)
	}
	return n, nil
}
