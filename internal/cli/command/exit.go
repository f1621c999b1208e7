package command

import (
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// Exit codes.
const (
	ExitOK        = 0
	ExitFailure   = 1
	ExitUsage     = 2
	ExitNotFound  = 3
	ExitHuman     = 4 // a person is needed
	ExitNoDaemon  = 69
	exitAuth      = 77
	ExitConfig    = 78
	ExitTimeout   = 124
	ExitSignalled = 128 // plus the number of the signal
)

// exitError is an error with its own exit code.
type exitError struct {
	code int
	err  error
}

// Exit returns an error with an exit code. If err is nil, the program ends without a message.
func Exit(code int, err error) error { return &exitError{code, err} }

// Exitf is Exit with a formatted error.
func Exitf(code int, format string, args ...any) error {
	return Exit(code, fmt.Errorf(format, args...))
}

// Usagef is UsageError with a formatted error.
func Usagef(format string, args ...any) error { return UsageError(fmt.Errorf(format, args...)) }

// UsageError returns an error about invalid arguments or flags.
func UsageError(err error) error { return &exitError{ExitUsage, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// ExitCode returns the exit code of an error.
func ExitCode(err error) int {
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	switch {
	case errors.Is(err, api.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, api.ErrDown), errors.Is(err, api.ErrStopping):
		return ExitNoDaemon
	case errors.Is(err, token.ErrStale), errors.Is(err, api.ErrUnauthorized):
		return exitAuth
	case errors.Is(err, api.ErrInvalid):
		return ExitUsage
	}
	return ExitFailure
}
