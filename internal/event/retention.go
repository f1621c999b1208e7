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

// retention removes events that are too old or too many. It knows the log by
// blocks of events, so that a log of millions costs little memory. It belongs to
// the writer goroutine.
type retention struct {
	log    *Log
	blocks []block
	last   uint64 // the last event that is in a block
	bytes  int64  // of all blocks
	recent int64  // bytes written since the last pass
}

// block is some consecutive events.
type block struct {
	first, last uint64
	bytes       int64
	newest      time.Time // the latest time in it
}

const blockSize = 64 // numbers; it is removed in one Apply

// full reports whether the event seq belongs into a new block.
func (b block) full(seq uint64, maxBytes int64) bool {
	return seq-b.first >= blockSize || maxBytes > 0 && b.bytes > maxBytes/16
}

func newRetention(l *Log) *retention { return &retention{log: l} }

// added tells of an event that was written.
func (r *retention) added(bytes int) { r.recent += int64(bytes) }

// due reports whether so much was written that a pass should not wait for its time.
func (r *retention) due() bool {
	return r.log.cfg.MaxBytes > 0 && r.recent > r.log.cfg.MaxBytes/8
}

// prune looks at what is new in the log and removes whole blocks from its beginning.
func (r *retention) prune(ctx context.Context) error {
	r.recent = 0
	cfg := r.log.cfg
	if cfg.MaxAge <= 0 && cfg.MaxBytes <= 0 {
		return nil
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	for len(r.blocks) > 0 {
		b := r.blocks[0]
		old := cfg.MaxAge > 0 && time.Since(b.newest) > cfg.MaxAge
		much := cfg.MaxBytes > 0 && r.bytes > cfg.MaxBytes && len(r.blocks) > 1
		if !old && !much {
			return nil
		}
		if err := r.remove(ctx, b); err != nil {
			return err
		}
		r.blocks = r.blocks[1:]
		r.bytes -= b.bytes
	}
	return nil
}

// look reads the events that no block has yet.
func (r *retention) look(ctx context.Context) error {
	for {
		records, _, err := r.log.store.Scan(ctx, r.log.prefix, store.SequenceKey(r.log.prefix, r.last), 4*blockSize)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return nil
		}
		for _, rec := range records {
			seq, ok := store.ParseSequenceKey(r.log.prefix, rec.Key)
			if !ok {
				continue
			}
			// An event that cannot be read goes with its neighbours.
			var e struct{ Time time.Time }
			json.Unmarshal(rec.Value, &e)
			r.add(seq, int64(len(rec.Value)), e.Time)
		}
		if _, ok := store.ParseSequenceKey(r.log.prefix, records[len(records)-1].Key); !ok {
			return nil // keys that are not ours come last
		}
	}
}

func (r *retention) add(seq uint64, bytes int64, t time.Time) {
	if n := len(r.blocks); n == 0 || r.blocks[n-1].full(seq, r.log.cfg.MaxBytes) {
		r.blocks = append(r.blocks, block{first: seq})
	}
	b := &r.blocks[len(r.blocks)-1]
	b.last = seq
	b.bytes += bytes
	if t.After(b.newest) {
		b.newest = t
	}
	r.last = seq
	r.bytes += bytes
}

// remove deletes a block and says in the same step up to where events are gone.
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

// pruned returns up to where events have been removed, 0 if none were.
func (l *Log) pruned(ctx context.Context) (uint64, error) {
	records, _, err := l.store.Snapshot(ctx, l.prunedKey())
	if err != nil || len(records) == 0 {
		return 0, err
	}
	n, err := strconv.ParseUint(string(records[0].Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("record %s: %w", l.prunedKey(), err)
	}
	return n, nil
}
