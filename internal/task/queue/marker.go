package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/store"
)

// marker makes every write conditional on one record, which each write changes. This detects
// other writers. If the outcome of a write is unknown, the record tells.
type marker struct {
	records *records
	nonce   string // unique to this writer
	writes  uint64
	rev     store.Rev
}

// mark is the marker's record.
type mark struct {
	Name   string `json:"name"`   // of the last write
	Number uint64 `json:"number"` // last number given to a task
	rev    store.Rev
}

// apply writes ops until the outcome is known. The error is errRetry if another writer has
// written, and ErrUnknown if ctx ends first. After any other error nothing was written.
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
		case readErr != nil: // repeating the write is harmless
		case stored.Name == name:
			m.rev = stored.rev
			return nil
		case stored.rev != m.rev:
			return errRetry
		}
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, context.Cause(ctx))
}

// read returns the stored mark.
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
