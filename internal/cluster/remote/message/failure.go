package message

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
)

// Failure is an error that is sent. Also has the names of the sentinels that shims do not send.
type Failure struct {
	*wire.Failure
	Also []string `json:"also,omitempty"`
}

// sentinels are errors that keep their identity, in addition to those of package wire.
var sentinels = [...]struct {
	name string
	err  error
}{
	{"not exist", fs.ErrNotExist},
	{"exist", fs.ErrExist},
	{"permission", fs.ErrPermission},
	{"canceled", context.Canceled},
	{"deadline exceeded", context.DeadlineExceeded},
	{"runtime closed", slots.ErrClosed},
	{"node lost", runtime.ErrNodeLost},
	{"landlock", landlock.ErrUnsupported},
	{"controller fenced", store.ErrFenced},
	{"store unavailable", store.ErrUnavailable},
	{"token stale", token.ErrStale},
	{"token pending", token.ErrPending},
}

// NewFailure describes an error; nil for nil.
func NewFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Failure: wire.NewFailure(err)}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			f.Also = append(f.Also, s.name)
		}
	}
	return f
}

// Err returns the described error; nil for nil.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	if f.Failure == nil {
		return errors.New("a failure without a text")
	}
	e := &nodeError{wrapped: []error{f.Failure.Err()}}
	for _, s := range sentinels {
		if slices.Contains(f.Also, s.name) {
			e.wrapped = append(e.wrapped, s.err)
		}
	}
	if len(e.wrapped) == 1 {
		return e.wrapped[0]
	}
	return e
}

// nodeError has the text of its first error.
type nodeError struct{ wrapped []error }

func (e *nodeError) Error() string   { return e.wrapped[0].Error() }
func (e *nodeError) Unwrap() []error { return e.wrapped }
