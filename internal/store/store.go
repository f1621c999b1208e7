// Package store keeps everything that must survive: beliefs, tasks, restart
// counters, schedules, the event log. It defines one small
// interface that an in-memory map, a SQLite file and a networked store can all
// honour, so that what is above it is written once.
//
// A store is a map from slash-separated keys to values, with one revision
// counter for all of it. Callers read a prefix once (Snapshot), follow it
// (Watch), decide from what they hold in memory, and write with conditions
// (Apply), so that a decision taken on an old view fails instead of overwriting
// a newer one. Never decide from single reads.
//
// The package storetest holds the suite that each implementation must pass, and
// a fault store to test the callers against.
package store

import (
	"context"
	"iter"
	"time"
)

// Rev is a revision: a position in the history of a store. Each Apply that
// changes something gets one greater than all before it; revisions may have
// gaps. 0 is before the first change and, as the revision of a record, means
// that there is none.
type Rev uint64

// Record is one key and its value. The value is shared: do not modify it.
type Record struct {
	Key   string
	Value []byte
	Rev   Rev // of the Apply that wrote it last
}

// Cond is a condition of an Apply: the record at Key has revision Rev; 0 means
// that there is no such record.
type Cond struct {
	Key string
	Rev Rev
}

// Fence ties an Apply to a lease: it succeeds only while the lease of that
// name is held with that epoch. The zero Fence is no fence.
type Fence struct {
	Lease string
	Epoch uint64
}

// OpKind says what an Op does.
type OpKind uint8

const (
	Put    OpKind = iota + 1 // write the record, whether it exists or not
	Delete                   // remove the record; no error and no change if there is none
	Append                   // create a record under Key, named by the next sequence number
)

// Op is one change. For Append, Key is the prefix under which a record is
// created, see SequenceKey.
type Op struct {
	Kind  OpKind
	Key   string
	Value []byte // not for Delete; copied by Apply
}

// Change is what one Apply did below a watched prefix.
type Change struct {
	Rev     Rev
	Put     []Record // in the order of the ops; appended records with their new keys
	Deleted []string
}

// Store is durable state. All methods may be called by many goroutines at once.
type Store interface {
	// Apply checks the fence and all conditions and performs all ops, as one
	// atomic step: all of it or nothing. When it returns nil the changes are as
	// durable as the store can make them, and visible to every later call of
	// any method.
	//
	// Without ops, or if they change nothing (deletes of what is not there),
	// it only checks, and returns the current revision.
	//
	// Sequence numbers of appends are counted for each prefix. They rise in the
	// order in which the records become visible, over all writers, and are
	// never used twice, not even when the records have been deleted or the store
	// was reopened. They may have gaps. What is directly below a prefix that is
	// appended to belongs to the store: delete there, but do not put.
	//
	// Errors:
	//   - ErrInvalid: the call itself is wrong, see the bounds in limits.go.
	//   - ErrFenced: the lease is not held with this epoch, or no longer. It never will be again.
	//   - ErrConflict: a condition does not hold, as a *ConflictError. A
	//     networked store may say so wrongly: read again before you believe it.
	//   - ErrFull, ErrReadOnly: nothing was done; may work later.
	//   - ErrUnknown: done or not, or about to be. A repetition is safe only if
	//     it has conditions that the first one, if it was done, made false.
	//   - ErrClosed, or the context's error: nothing was done.
	Apply(ctx context.Context, fence Fence, conds []Cond, ops []Op) (Rev, error)

	// Snapshot returns all records at and below prefix, sorted by key, as they
	// were at the revision it returns. "a/b" covers the key a/b and those that
	// begin with a/b/, but not a/bc; "" covers everything.
	Snapshot(ctx context.Context, prefix string) ([]Record, Rev, error)

	// Scan is Snapshot by pages, for what may be too much to hold: the records
	// whose keys are greater than after ("" for all), at most limit of them (no
	// such bound if 0) and few enough to hold at most MaxPage bytes of
	// values, unless a single one is larger. An empty page is the end; a short one need not be.
	Scan(ctx context.Context, prefix, after string, limit int) ([]Record, Rev, error)

	// Watch yields every change at and below prefix with a revision greater
	// than from, each once and whole, in the order of revisions; it waits for
	// those to come. To go on after an interruption, pass the revision of the
	// last change that was dealt with.
	//
	// It ends, with the error as the last thing yielded, when the
	// context ends, when the store is closed (ErrClosed), and with ErrCompacted
	// when changes after from are no longer kept (a watcher that is too slow, a
	// store that was reopened) or from is not of this store's past: take a
	// Snapshot and watch from there.
	//
	// A store that stands behind a network may repeat a change after a
	// reconnection. Skip what is not newer than what you have.
	Watch(ctx context.Context, prefix string, from Rev) iter.Seq2[Change, error]

	// Acquire takes the lease of that name for ttl, or fails with ErrHeld, as
	// a *HeldError, while somebody has it. It does not wait. The epoch it gets is
	// greater than that of every lease of this store before it.
	// ErrUnknown means that it may be held, unknown to any holder, until ttl is over.
	Acquire(ctx context.Context, name string, ttl time.Duration) (Lease, error)

	// Close ends all watches, loses all leases and waits for writes under way.
	Close() error
}

// Lease is the right to be the only one, for a time. The holder renews it well
// before Deadline, from the very loop whose life it vouches for, and stops what
// it does under the lease when Done is closed.
type Lease interface {
	// Fence is what the holder's Apply calls carry.
	Fence() Fence

	// Deadline is until when the lease is certainly held: counted on the
	// monotonic clock from the moment at which the last successful Acquire or
	// Renew was sent, so that it is never later than the store's own idea.
	Deadline() time.Time

	// Renew extends the lease by its ttl. It fails with ErrFenced when the
	// lease is lost, which is final. After any other error the lease is held
	// until the Deadline that it had.
	Renew(ctx context.Context) error

	// Release gives the lease up at once. No error if it is lost already.
	Release(ctx context.Context) error

	// Done is closed when the lease is no longer held: released, deadline
	// passed, store closed. The store refuses its fence from then on.
	Done() <-chan struct{}
}

// Get returns the record at a key, the zero Record if there is none.
func Get(ctx context.Context, s Store, key string) (Record, error) {
	records, _, err := s.Snapshot(ctx, key)
	if err != nil || len(records) == 0 || records[0].Key != key {
		return Record{}, err
	}
	return records[0], nil
}

// All yields all records at and below prefix, sorted by key, by pages of Scan. It ends with
// the first error.
func All(ctx context.Context, s Store, prefix string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for after := ""; ; {
			page, _, err := s.Scan(ctx, prefix, after, 0)
			if err != nil {
				yield(Record{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			after = page[len(page)-1].Key
		}
	}
}
