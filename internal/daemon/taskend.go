package daemon

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/supervisor"
)

// failureOf says how an incarnation has failed, "" if it has not: it was asked
// to end, now or by a daemon before this one, it had to finish and has, or how it
// ended is not known. Only failures count against the tasks that it had claimed.
func failureOf(exit agent.Exit) string {
	var unhealthy *agent.UnhealthyError
	switch {
	case errors.As(exit.Err, &unhealthy):
		return exit.String()
	case exit.Kind == supervisor.Lost, exit.Kind == supervisor.ShutDown, errors.Is(exit.Err, supervisor.ErrKilled),
		!exit.Died():
		return ""
	case exit.Clean():
		return "ended without closing it"
	}
	return exit.String()
}
