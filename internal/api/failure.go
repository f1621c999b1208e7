package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/coppice-dev/coppice/internal/token"
)

// Failure is the body of each answer that is not a success, and the last message of a stream that
// failed.
type Failure struct {
	Error string `json:"error"` // for people
	Code  string `json:"code"`  // for programs: a code of failures, unsupported or internal
}

// failures lists the errors that have a code, and their status. The client translates a code to
// its first error.
var failures = []struct {
	err    error
	status int
	code   string
}{
	{ErrNotFound, http.StatusNotFound, "not_found"},
	{ErrConflict, http.StatusConflict, "conflict"},
	{ErrInvalid, http.StatusBadRequest, "invalid"},
	{token.ErrStale, http.StatusGone, "stale"},
	{ErrUnauthorized, http.StatusUnauthorized, "unauthorized"},
	{ErrNoController, http.StatusServiceUnavailable, "no_controller"},
	{ErrStopping, http.StatusServiceUnavailable, "stopping"},
	{token.ErrPending, http.StatusServiceUnavailable, "stopping"},
	{ErrDown, http.StatusServiceUnavailable, "down"}, // from a local server, while no daemon runs
}

// unsupported is a protocol error, as opposed to an error of an operation.
type unsupported struct {
	status  int
	message string
}

func (e *unsupported) Error() string { return e.message }

// failure translates an error into a status and a body.
func failure(err error) (status int, f Failure) {
	if e, ok := errors.AsType[*unsupported](err); ok {
		return e.status, Failure{Error: err.Error(), Code: "unsupported"}
	}
	for _, known := range failures {
		if errors.Is(err, known.err) {
			return known.status, Failure{Error: err.Error(), Code: known.code}
		}
	}
	return http.StatusInternalServerError, Failure{Error: err.Error(), Code: "internal"}
}

// NewError returns an error with a text for people that keeps the status code of kind, an error
// of this package.
func NewError(kind error, text string) error { return &kindError{text, kind} }

// kindError is an error with its own text that wraps an error of this package.
type kindError struct {
	text string
	kind error // an error of this package, or nil
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

// remote translates a Failure back into an error.
func (f Failure) remote() error {
	e := &kindError{text: f.Error}
	for _, known := range slices.Backward(failures) {
		if known.code == f.Code {
			e.kind = known.err
		}
	}
	if e.text == "" {
		e.text = "the daemon reports a failure without a text (" + f.Code + ")"
		if e.kind != nil {
			e.text = e.kind.Error()
		}
	}
	return e
}
