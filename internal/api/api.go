// Package api implements the API of a daemon, HTTP and JSON over a unix socket: the server for
// the daemon and the client for other programs.
//
// A feature declares its operations as typed routes, handles them with Route.Handle, and its
// callers use Route.Call. The server authenticates callers, translates errors to status codes,
// and the client translates them back. Routes are described by their types. The json tag names a
// field, which is required unless the tag has omitempty or omitzero. The tags doc, minimum,
// maximum, maxLength and enum describe the field; the tags doc and schema of a field named _
// describe and name the type.
package api

import (
	"errors"
)

// Errors that are preserved between server and client.
var (
	ErrNotFound = errors.New("no such node")         // 404; exit code 3
	ErrConflict = errors.New("not possible now")     // 409: it runs already, it is restarting, ...
	ErrInvalid  = errors.New("invalid request")      // 400; exit code 2
	ErrDown     = errors.New("no daemon is running") // from the client; exit code 69
	ErrStopping = errors.New("daemon is stopping")   // 503; or still starting

	// ErrLost also comes from the client: there was no answer, and it is unknown whether the
	// request was carried out.
	ErrLost = errors.New("the connection to the daemon was lost")

	ErrUnauthorized = errors.New("not allowed") // 401; exit code 77, as token.ErrStale

	// ErrNoController means that no node of the fleet answers as the controller now; another one may
	// soon. It is an ErrStopping. Nothing was done.
	ErrNoController = NewError(ErrStopping, "no controller answers") // 503
)
