// Package local implements the parts that the stores of one process share: planning the effect of
// Apply calls, the history that watches read, and leases. The stores differ only in where they
// keep records.
package local

import (
	"maps"

	"github.com/coppice-dev/coppice/internal/store"
)

// Base is the committed state that a Batch builds on.
type Base interface {
	// Rev returns the revision of a record, or 0 if there is none.
	Rev(key string) (store.Rev, error)
	// Sequence returns the last sequence number that was used under a prefix.
	Sequence(prefix string) (uint64, error)
}

// Batch plans several Apply calls, one after the other, that are then committed together. Each
// call sees the effects of those before it. A call that fails leaves the batch unchanged.
type Batch struct {
	base Base
	rev  store.Rev

	// The state to write. Of several changes of a key only the last is kept.
	Records   map[string]Pending
	Sequences map[string]uint64
	// The changes to publish to watches, one for each call that changed something.
	Changes []store.Change
}

// Pending is a record to write or delete.
type Pending struct {
	Value   []byte
	Rev     store.Rev
	Deleted bool
}

// NewBatch begins a batch after revision rev.
func NewBatch(base Base, rev store.Rev) *Batch {
	return &Batch{base: base, rev: rev, Records: map[string]Pending{}, Sequences: map[string]uint64{}}
}

// Rev returns the revision of the store once the batch is committed.
func (b *Batch) Rev() store.Rev { return b.rev }

// Apply plans one call, whose arguments have passed store.CheckApply, and returns its revision.
func (b *Batch) Apply(conds []store.Cond, ops []store.Op) (store.Rev, error) {
	for _, c := range conds {
		have, err := b.revOf(c.Key)
		if err != nil {
			return 0, err
		}
		if have != c.Rev {
			return 0, &store.ConflictError{Key: c.Key, Want: c.Rev, Have: have}
		}
	}
	// Everything that can fail precedes the first change of the batch.
	change := store.Change{Rev: b.rev + 1}
	sequences := map[string]uint64{}
	for _, op := range ops {
		switch op.Kind {
		case store.Put:
			change.Put = append(change.Put, record(op.Key, op.Value, change.Rev))
		case store.Append:
			seq, ok := sequences[op.Key]
			if !ok {
				var err error
				if seq, err = b.sequence(op.Key); err != nil {
					return 0, err
				}
			}
			seq++
			sequences[op.Key] = seq
			change.Put = append(change.Put, record(store.SequenceKey(op.Key, seq), op.Value, change.Rev))
		case store.Delete:
			have, err := b.revOf(op.Key)
			if err != nil {
				return 0, err
			}
			if have != 0 {
				change.Deleted = append(change.Deleted, op.Key)
			}
		}
	}
	if len(change.Put) == 0 && len(change.Deleted) == 0 {
		return b.rev, nil
	}
	for _, r := range change.Put {
		b.Records[r.Key] = Pending{Value: r.Value, Rev: r.Rev}
	}
	for _, key := range change.Deleted {
		b.Records[key] = Pending{Deleted: true}
	}
	maps.Copy(b.Sequences, sequences)
	b.rev = change.Rev
	b.Changes = append(b.Changes, change)
	return b.rev, nil
}

func (b *Batch) revOf(key string) (store.Rev, error) {
	if p, ok := b.Records[key]; ok {
		return p.Rev, nil // 0 if deleted
	}
	return b.base.Rev(key)
}

func (b *Batch) sequence(prefix string) (uint64, error) {
	if seq, ok := b.Sequences[prefix]; ok {
		return seq, nil
	}
	return b.base.Sequence(prefix)
}

// record returns a record with a copy of value. The copy is never nil, so a missing value and an
// empty one are stored alike.
func record(key string, value []byte, rev store.Rev) store.Record {
	return store.Record{Key: key, Value: append([]byte{}, value...), Rev: rev}
}
