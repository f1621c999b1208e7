// Package record creates and deletes single records of a store, and finds out what became of writes whose outcome is
// unknown. It also follows records that others change.
package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
)

// Delay before a write is repeated, doubled each time.
const (
	minRetry = time.Millisecond
	maxRetry = 100 * time.Millisecond
)

// Create writes a record unless there is one at the key. It returns the record that the store then has, and whether
// this call wrote it. The value must be unlike that of every other call, for example by a random part. After
// store.ErrUnknown the record may have been written.
func Create(ctx context.Context, s store.Store, key string, value []byte) (r store.Record, created bool, err error) {
	err = write(ctx, s, store.Cond{Key: key}, store.Op{Kind: store.Put, Key: key, Value: value},
		func(have store.Record) bool {
			r, created = have, bytes.Equal(have.Value, value)
			return have.Rev != 0
		})
	return r, created && err == nil, err
}

// Delete deletes a record if it has not changed since it was read. It reports whether the record is gone; another
// caller may have deleted it. After store.ErrUnknown it may be gone or not.
func Delete(ctx context.Context, s store.Store, r store.Record) (gone bool, err error) {
	err = write(ctx, s, store.Cond{Key: r.Key, Rev: r.Rev}, store.Op{Kind: store.Delete, Key: r.Key},
		func(have store.Record) bool {
			gone = have.Rev == 0
			return have.Rev != r.Rev
		})
	return gone && err == nil, err
}

// write repeats a write until the record is one with which done is content. The condition keeps a repetition from
// taking effect twice.
func write(ctx context.Context, s store.Store, cond store.Cond, op store.Op, done func(store.Record) bool) error {
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		rev, err := s.Apply(ctx, store.Fence{}, []store.Cond{cond}, []store.Op{op})
		if err == nil {
			have := store.Record{Key: op.Key, Value: op.Value, Rev: rev}
			if op.Kind == store.Delete {
				have = store.Record{}
			}
			done(have)
			return nil
		}
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrConflict) {
			return err
		}
		have, readErr := store.Get(ctx, s, op.Key)
		if readErr != nil {
			return fmt.Errorf("%w; looking whether it was done: %w", err, readErr)
		}
		if done(have) {
			return nil
		}
		select { // not done, or not yet
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}
