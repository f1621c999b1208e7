package cli

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// Exit codes.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitHuman     = 4 // a person is needed
	exitNoDaemon  = 69
	exitAuth      = 77
	exitConfig    = 78
	exitTimeout   = 124
	exitSignalled = 128 // plus the signal's number
)

// exitError is an error with an exit code of its own. Its message, if there is
// one, is printed as the last line.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode is what an error means to the shell.
func exitCode(err error) int {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, api.ErrNotFound):
		return exitNotFound
	case errors.Is(err, api.ErrDown), errors.Is(err, api.ErrStopping):
		return exitNoDaemon
	case errors.Is(err, token.ErrStale), errors.Is(err, api.ErrUnauthorized):
		return exitAuth
	case errors.Is(err, api.ErrInvalid):
		return exitUsage
	}
	return exitFailure
}

func usageError(err error) error { return &exitError{exitUsage, err} }
