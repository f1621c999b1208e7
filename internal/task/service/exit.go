package service

import (
	"cmp"
	"errors"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// Exited ends the attempts of an incarnation, with what its exit tells of them. park is why its tasks
// are parked; empty if they go back into the queue.
func (s *Service) Exited(who token.Caller, exit agent.Exit, park string) {
	e := endOf(exit)
	e.Park = park
	s.queue.End(who.Path, who.Incarnation, e)
	s.releaseOrphans(who.Path)
}

// endOf returns what an exit tells of attempts about which the agent has said nothing. An exit is no failure if
// it was asked for, now or by an earlier daemon; if it is the clean end of a drain; if it was not observed; if the
// agent waits for something outside of it, such as its account; and if the server of a model has failed.
func endOf(exit agent.Exit) task.Exit {
	e := task.Exit{Cause: exit.String(), Output: agent.EventEnd(exit.Exit).LastOutput}
	var unhealthy *agent.UnhealthyError
	var waits *supervisor.RetryError
	end, known := errors.AsType[*quota.EndError](exit.Err)
	if known {
		e.Obstacle = end.Obstacle
	}
	switch {
	case errors.As(exit.Err, &waits), known && end.Obstacle.Outside():
	case errors.As(exit.Err, &unhealthy):
		e.Failure, e.Obstacle = exit.String(), cmp.Or(e.Obstacle, outcome.Timeout)
	case exit.Kind == supervisor.Lost, exit.Kind == supervisor.ShutDown, errors.Is(exit.Err, supervisor.ErrKilled),
		!exit.Died():
	case exit.Clean():
		e.Failure, e.Obstacle = "ended without closing it", outcome.OtherObstacle
	default:
		e.Failure = exit.String()
	}
	return e
}
