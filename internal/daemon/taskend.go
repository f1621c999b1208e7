package daemon

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/supervisor"
)

// failureOf returns the failure of an incarnation, for the tasks that it had claimed. It returns "" for
// an exit that was asked for, now or by an earlier daemon, for the clean end of a drain, for an exit
// that was not observed, for one after which the agent waits for something outside of it, such as its account, and
// for one because the server of a model has failed.
func failureOf(exit agent.Exit) string {
	var unhealthy *agent.UnhealthyError
	var waits *supervisor.RetryError
	var end *quota.EndError
	switch {
	case errors.As(exit.Err, &waits), errors.As(exit.Err, &end) && end.Outside:
		return ""
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
