// Package api lets programs talk to a daemon by HTTP and JSON over a unix socket:
// it has the server for the daemon and the client for other programs.
//
// A feature declares what it can be asked as typed routes, handles them with
// Route.Handle, and its callers use Route.Call. The server checks who asks, turns
// errors into status codes and back, and describes the routes by their types: the
// tag json names a field, which is required unless it says omitempty or omitzero;
// the tags doc, minimum, maximum, maxLength and enum describe it, and the tags doc and
// schema of a field named _ describe and name the type.
package api

import (
	"errors"
)

// Errors that survive the wire: the client returns what the service did.
var (
	ErrNotFound = errors.New("no such node")         // 404; exit code 3
	ErrConflict = errors.New("not possible now")     // 409: it runs already, it is restarting, ...
	ErrInvalid  = errors.New("invalid request")      // 400; exit code 2
	ErrDown     = errors.New("no daemon is running") // the client's own; exit code 69
	ErrStopping = errors.New("daemon is stopping")   // 503; or not there yet

	// The client's own, too: the answer did not come. It is not known whether
	// the request was carried out.
	ErrLost = errors.New("the connection to the daemon was lost")

	ErrUnauthorized = errors.New("not allowed") // 401; exit code 77, as token.ErrStale
)
