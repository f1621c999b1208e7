package daemon

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/task"
)

// translated makes an error of tasks one of the API. What it says stays.
func translated(err error) error {
	for _, kind := range []struct{ ours, theirs error }{
		{task.ErrNotFound, api.ErrNotFound}, {task.ErrInvalid, api.ErrInvalid}, {task.ErrConflict, api.ErrConflict},
		{task.ErrFull, api.ErrConflict}, {task.ErrStale, api.ErrStale},
	} {
		if errors.Is(err, kind.ours) {
			return &apiError{err, kind.theirs}
		}
	}
	return err
}

type apiError struct{ err, kind error }

func (e *apiError) Error() string   { return e.err.Error() }
func (e *apiError) Unwrap() []error { return []error{e.err, e.kind} }
