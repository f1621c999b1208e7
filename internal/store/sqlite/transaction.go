package sqlite

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/store"
)

// begin begins a transaction.
func (w *writer) begin() error {
	if w.refused != nil {
		return w.refused
	}
	if w.conn == nil {
		return fmt.Errorf("the store %s was removed or replaced, and cannot be opened", w.path)
	}
	if w.stale {
		if err := w.reload(); err != nil {
			return err
		}
	}
	if _, err := w.conn.begin.Exec(); err != nil {
		return w.diagnose("begin", err)
	}
	return nil
}

// finish commits the open transaction, or rolls it back if writing failed.
func (w *writer) finish(failed error) error {
	if failed != nil {
		w.conn.rollback()
		w.stale = true
		return w.diagnose("write", failed)
	}
	if _, err := w.conn.commit.Exec(); err != nil {
		w.conn.rollback()
		w.stale = true
		err = w.diagnose("commit", err)
		if !store.Refused(err) {
			// A commit ends with a sync. If that fails, a crash may bring back what is
			// now rolled back.
			err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
		return err
	}
	return nil
}

// reached records the state after a commit.
func (w *writer) reached(rev store.Rev, epoch uint64) {
	w.rev, w.epoch = rev, epoch
	w.mark.reached(rev)
	w.behind = true
}

// reload reads the state of the file after a transaction that failed. If it was committed after
// all, watches cannot be told its changes and get ErrCompacted.
func (w *writer) reload() error {
	rev, err := w.conn.meta("rev")
	if err != nil {
		return w.diagnose("read", err)
	}
	epoch, err := w.conn.meta("epoch")
	if err != nil {
		return w.diagnose("read", err)
	}
	if store.Rev(rev) != w.rev {
		w.history.Forget(store.Rev(rev))
	}
	w.rev, w.epoch = store.Rev(rev), max(epoch, w.epoch)
	w.mark.reached(w.rev)
	clear(w.sequences)
	w.stale = false
	return nil
}
