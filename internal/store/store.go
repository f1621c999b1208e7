// Package store keeps everything that must survive a restart: beliefs, tasks, restart counters,
// schedules and the event log. It defines one small interface that an in-memory map, a SQLite
// file and a networked store can all implement, so the code above it is written once.
//
// A store is a map from slash-separated keys to values, with one revision counter for the whole
// map. Callers read a prefix once (Snapshot), follow it (Watch), decide from what they hold in
// memory, and write with conditions (Apply). A decision that was made from an old view then fails
// instead of overwriting a newer one. Never decide from single reads.
//
// Every store is also an Exporter and an Importer, so that its content can be copied into another
// kind of store; package transfer does that.
//
// Package storetest holds the suite that each implementation must pass, and a fault-injecting
// store to test callers with.
package store

import (
	"context"
	"iter"
	"time"
)

// Rev is a revision: a position in the history of a store. Each Apply that changes something gets
// a greater revision than all before it; revisions may have gaps. 0 is before the first change.
// As the revision of a record, 0 means that the record does not exist.
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

// Fence ties an Apply to a lease: it succeeds only while the lease with that name is held with
// that epoch. The zero Fence imposes no condition.
type Fence struct {
	Lease string
	Epoch uint64
}

// OpKind is the kind of an Op.
type OpKind uint8

const (
	Put    OpKind = iota + 1 // write the record, whether it exists or not
	Delete                   // remove the record; no error and no change if there is none
	Append                   // create a record under Key, named by the next sequence number
)

// Op is one change. For Append, Key is the prefix under which a record is created; see
// SequenceKey.
type Op struct {
	Kind  OpKind
	Key   string
	Value []byte // not for Delete; copied by Apply
}

// Change lists the changes that one Apply made below a watched prefix.
type Change struct {
	Rev     Rev
	Put     []Record // in the order of the ops; appended records with their new keys
	Deleted []string
}

// Store is durable state. All methods are safe for concurrent use.
type Store interface {
	// Apply checks the fence and all conditions and performs all ops as one atomic step. When it
	// returns nil, the changes are as durable as the store can make them, and visible to every
	// later call of any method.
	//
	// Without ops, or if they change nothing (deletes of missing records), it only checks, and
	// returns the current revision.
	//
	// Appends are numbered separately under each prefix. The numbers rise in the order in which
	// the records become visible, across all writers. They are never reused, even after the
	// records were deleted or the store was reopened. They may have gaps. The records directly
	// below such a prefix belong to the store: delete them, but do not put any there.
	//
	// Errors:
	//
	//   - ErrInvalid: the call itself is wrong; see the bounds in limits.go.
	//   - ErrFenced: the lease is not held with this epoch, and never will be again.
	//   - ErrConflict: a condition does not hold, as a *ConflictError. A networked store may report
	//     this wrongly: read again before you believe it.
	//   - ErrFull, ErrReadOnly, ErrUnavailable: nothing was done; a later call may succeed.
	//   - ErrUnknown: the changes were made, were not made, or are about to be. Repeat the call only
	//     if it has conditions that the first one, if it was done, made false.
	//   - ErrClosed, or the context's error: nothing was done.
	Apply(ctx context.Context, fence Fence, conds []Cond, ops []Op) (Rev, error)

	// Snapshot returns all records at and below prefix, sorted by key, as of the revision it
	// returns. "a/b" covers the key a/b and those that begin with a/b/, but not a/bc; "" covers
	// everything. All methods that read fail with ErrUnavailable if no server of a networked store answers.
	Snapshot(ctx context.Context, prefix string) ([]Record, Rev, error)

	// Scan is Snapshot in pages, for prefixes with too many records to hold at once. It returns
	// records whose keys are greater than after ("" for all), at most limit of them (0 for no
	// limit). Their values have at most MaxPage bytes together, unless there is only one. An
	// empty page is the end; a short one need not be.
	Scan(ctx context.Context, prefix, after string, limit int) ([]Record, Rev, error)

	// Watch yields every change at and below prefix with a revision greater than from, each
	// exactly once, in the order of revisions, and waits for more. To resume, pass the revision
	// of the last change that was processed.
	//
	// It ends with an error as the last item: the context's error, ErrClosed, or ErrCompacted.
	// ErrCompacted means that changes after from are no longer kept (the watcher is too slow, or
	// the store was reopened), or that from is not a revision of this store. Take a Snapshot and
	// watch from there.
	//
	// A networked store may repeat a change after a reconnection. Skip changes that are not newer
	// than the last one processed.
	Watch(ctx context.Context, prefix string, from Rev) iter.Seq2[Change, error]

	// Acquire takes the lease with that name for ttl. It fails with ErrHeld, as a *HeldError,
	// while another holder has it; it does not wait. The epoch is greater than that of every
	// earlier lease of this store. After ErrUnknown the lease may be held without a holder until
	// ttl is over.
	Acquire(ctx context.Context, name string, ttl time.Duration) (Lease, error)

	// Resume takes over the lease that is held with that fence, from a holder that is gone, for ttl from now. The
	// fence stays the same. It fails with ErrFenced if the lease is no longer held with it. A Lease of this store with
	// that fence ends. The holder may be a process that was killed, if the store outlives its processes.
	Resume(ctx context.Context, fence Fence, ttl time.Duration) (Lease, error)

	// Close ends all watches, loses all leases and waits for pending writes.
	Close() error
}

// Lease is a right that only one holder has at a time. The holder renews it well before Deadline,
// from the same loop that does the work. It stops the work when Done is closed.
type Lease interface {
	// Fence returns the fence for the holder's Apply calls.
	Fence() Fence

	// Deadline returns the time until which the lease is certainly held. It is counted on the
	// monotonic clock from the start of the last successful Acquire or Renew, so it is never
	// later than the store's own deadline.
	Deadline() time.Time

	// Renew extends the lease by its ttl. It fails with ErrFenced when the lease is lost, which
	// is final. After any other error the lease is held until its previous Deadline.
	Renew(ctx context.Context) error

	// Release gives the lease up immediately. It is not an error if the lease is already lost.
	Release(ctx context.Context) error

	// Abandon ends this Lease, and leaves it to a process that resumes it before it expires.
	Abandon()

	// Done is closed when the lease is no longer held by this Lease: released, expired, abandoned, resumed by another
	// one, or the store was closed. Unless it was resumed or abandoned, the store rejects its fence from then on.
	Done() <-chan struct{}
}

// LeaseFollower is a store that tells when leases end.
type LeaseFollower interface {
	// FollowLeases calls changed with the name of each lease that is taken or ends, and with "" when that may have been
	// missed, as at the start: callers look then whether a fence is still good. It ends with the error of the context,
	// or ErrClosed.
	FollowLeases(ctx context.Context, changed func(lease string)) error
}

// Get returns the record at a key, or the zero Record if there is none.
func Get(ctx context.Context, s Store, key string) (Record, error) {
	records, _, err := s.Snapshot(ctx, key)
	if err != nil || len(records) == 0 || records[0].Key != key {
		return Record{}, err
	}
	return records[0], nil
}

// All yields all records at and below prefix, sorted by key, reading them in pages. It ends with
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
