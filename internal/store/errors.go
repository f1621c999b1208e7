package store

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a store. Compare with errors.Is.
var (
	ErrConflict = errors.New("conflict: the record has changed")
	ErrFenced   = errors.New("fenced: the lease is no longer held")
	ErrUnknown  = errors.New("outcome unknown: the write may or may not have been done")
	ErrFull     = errors.New("no space left for the store")
	ErrReadOnly = errors.New("store is read-only")
	// ErrUnavailable means that the servers of a networked store do not answer.
	ErrUnavailable = errors.New("store cannot be reached")
	ErrCompacted   = errors.New("changes since that revision are no longer kept")
	ErrHeld        = errors.New("lease is held")
	ErrNotEmpty    = errors.New("the store is not empty")
	ErrInvalid     = errors.New("invalid")
	ErrClosed      = errors.New("store is closed")
)

// ConflictError names the condition that did not hold. It matches ErrConflict.
type ConflictError struct {
	Key  string
	Want Rev // the revision in the condition
	Have Rev // the current revision; 0 for no record
}

func (e *ConflictError) Error() string {
	switch {
	case e.Want == 0:
		return fmt.Sprintf("conflict: %s exists already, at revision %d", e.Key, e.Have)
	case e.Have == 0:
		return fmt.Sprintf("conflict: %s is gone, expected it at revision %d", e.Key, e.Want)
	}
	return fmt.Sprintf("conflict: %s is at revision %d, expected %d", e.Key, e.Have, e.Want)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// HeldError names a lease that is held, and when it expires unless it is renewed. It matches
// ErrHeld.
type HeldError struct {
	Lease string
	Until time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %s is held, until %s if not renewed", e.Lease, e.Until.Format(time.RFC3339))
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Refused reports whether err means that the store cannot write at present, that a later write
// may succeed, and that nothing was written.
func Refused(err error) bool {
	return errors.Is(err, ErrFull) || errors.Is(err, ErrReadOnly) || errors.Is(err, ErrUnavailable)
}
