package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/store"
)

// marker writes on condition that one record, which every write changes, is as the
// write before has left it. So another writer is found out; and where the outcome of a
// write is not known, the record tells.
type marker struct {
	records *records
	nonce   string // of this writer
	writes  uint64
	rev     store.Rev
}

// mark is the record of a marker.
type mark struct {
	Name   string `json:"name"`   // of the last write
	Number uint64 `json:"number"` // the last that a task was given
	rev    store.Rev
}

// apply writes ops until it is known whether they were written. Its error is
// errRetry if another writer has written, ErrUnknown if ctx is over
// before it is known, and else that of the store, which has done nothing.
func (m *marker) apply(ctx context.Context, number uint64, ops []store.Op) error {
	name := fmt.Sprintf("%s/%d", m.nonce, m.writes)
	m.writes++
	value, _ := json.Marshal(mark{Name: name, Number: number})
	ops = append([]store.Op{{Kind: store.Put, Key: markerKey, Value: value}}, ops...)
	for range attempts(ctx) {
		rev, err := m.records.store.Apply(ctx, store.Fence{}, []store.Cond{{Key: markerKey, Rev: m.rev}}, ops)
		if err == nil {
			m.rev = rev
			return nil
		}
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return err
		}
		stored, readErr := m.read(ctx)
		switch {
		case readErr != nil && ctx.Err() != nil:
			return fmt.Errorf("%w; looking whether it was done: %w", store.ErrUnknown, readErr)
		case readErr != nil: // look once more; to write once more does no harm either
		case stored.Name == name:
			m.rev = stored.rev
			return nil
		case stored.rev != m.rev:
			return errRetry
		}
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
}

// read returns what is stored.
func (m *marker) read(ctx context.Context) (stored mark, err error) {
	r, found, err := m.records.get(ctx, markerKey)
	if err != nil || !found {
		return mark{}, err
	}
	if err := json.Unmarshal(r.Value, &stored); err != nil {
		m.records.logBadRecord(r.Key, err)
	}
	stored.rev = r.Rev
	return stored, nil
}
