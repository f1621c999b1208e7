package api

import (
	"errors"
	"net/http"

	"github.com/coppice-dev/coppice/internal/token"
)

// Failure is the body of each answer that is no success, and the last message
// of a stream that failed.
type Failure struct {
	Error string `json:"error"` // for people
	Code  string `json:"code"`  // for programs: one of those below
}

// Codes of a Failure. All but the last two stand for an error of this package.
const (
	codeNotFound     = "not_found"
	codeConflict     = "conflict"
	codeInvalid      = "invalid"
	codeStopping     = "stopping"
	codeDown         = "down" // of a server in the same process, while no daemon runs
	codeStale        = "stale"
	codeUnauthorized = "unauthorized"
	codeUnsupported  = "unsupported" // the daemon does not speak that version or know that endpoint
	codeInternal     = "internal"
)

// unsupported is an error about the protocol, not about the fleet.
type unsupported struct {
	status  int
	message string
}

func (e *unsupported) Error() string { return e.message }

// failure translates an error for the wire.
func failure(err error) (status int, f Failure) {
	status, code := http.StatusInternalServerError, codeInternal
	var protocol *unsupported
	var full busy
	switch {
	case errors.As(err, &full):
		status, code = http.StatusServiceUnavailable, codeStopping
	case errors.As(err, &protocol):
		status, code = protocol.status, codeUnsupported
	case errors.Is(err, ErrNotFound):
		status, code = http.StatusNotFound, codeNotFound
	case errors.Is(err, ErrConflict):
		status, code = http.StatusConflict, codeConflict
	case errors.Is(err, ErrInvalid):
		status, code = http.StatusBadRequest, codeInvalid
	case errors.Is(err, token.ErrStale):
		status, code = http.StatusGone, codeStale
	case errors.Is(err, ErrUnauthorized):
		status, code = http.StatusUnauthorized, codeUnauthorized
	case errors.Is(err, ErrStopping), errors.Is(err, token.ErrPending):
		status, code = http.StatusServiceUnavailable, codeStopping
	case errors.Is(err, ErrDown):
		status, code = http.StatusServiceUnavailable, codeDown
	}
	return status, Failure{Error: err.Error(), Code: code}
}

// NewError returns an error for people that is one of this package to programs:
// it keeps that one's status code on the wire.
func NewError(kind error, text string) error { return &kindError{text, kind} }

// kindError is an error with a text of its own, and what it is.
type kindError struct {
	text string
	kind error // of this package, or nil
}

func (e *kindError) Error() string { return e.text }
func (e *kindError) Unwrap() error { return e.kind }

// remote translates an error back.
func (f Failure) remote() error {
	e := &kindError{text: f.Error}
	switch f.Code {
	case codeNotFound:
		e.kind = ErrNotFound
	case codeConflict:
		e.kind = ErrConflict
	case codeInvalid:
		e.kind = ErrInvalid
	case codeStale:
		e.kind = token.ErrStale
	case codeUnauthorized:
		e.kind = ErrUnauthorized
	case codeStopping:
		e.kind = ErrStopping
	case codeDown:
		e.kind = ErrDown
	}
	if e.text == "" {
		e.text = "the daemon reports a failure without a text (" + f.Code + ")"
		if e.kind != nil {
			e.text = e.kind.Error()
		}
	}
	return e
}
