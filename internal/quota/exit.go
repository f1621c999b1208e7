package quota

import (
	"context"
	"errors"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/supervisor"
)

// EndError is the error of a run of a command line that has not completed its work. Its text says why, where the
// exit code says little.
type EndError struct {
	Text string
	Wait error // wraps a supervisor.RetryError if the agent waits for its quota
	Exit error // that of the process; nil if it has exited with 0
	// Obstacle is the kind of the reason.
	Obstacle outcome.ObstacleKind
}

func (e *EndError) Error() string { return e.Text }

func (e *EndError) Unwrap() (all []error) {
	for _, err := range []error{e.Wait, e.Exit} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// After returns the exit of a run with what its record says: nil if nothing is known of it.
func (m *Manager) After(path string, exit supervisor.Exit, r *agentcli.Record) supervisor.Exit {
	if r == nil || exit.Kind == supervisor.ShutDown {
		m.Gone(path)
		return exit
	}
	if wait := m.Ended(path, *r); wait != nil {
		text := wait.Error()
		if e, ok := errors.AsType[*WaitError](wait); ok {
			text = e.Error()
		}
		return supervisor.Exit{Kind: supervisor.Failure, Err: &EndError{
			Text: text, Wait: wait, Exit: exit.Err, Obstacle: r.Obstacle,
		}}
	}
	says := r.Obstacle == outcome.Crash || r.Obstacle == outcome.Timeout // the exit, as much
	if r.Kind == outcome.Completed || says && exit.Err != nil {
		return exit
	}
	return supervisor.Exit{
		Kind: max(exit.Kind, supervisor.Failure), Err: &EndError{Text: r.Text(), Exit: exit.Err, Obstacle: r.Obstacle},
	}
}

// Start returns the Start function of an agent, made from the one that starts its process.
func (m *Manager) Start(
	start func(context.Context) (supervisor.Process, error),
) func(context.Context) (supervisor.Process, error) {
	return func(ctx context.Context) (supervisor.Process, error) {
		p, err := start(ctx)
		if _, waits := errors.AsType[*supervisor.RetryError](err); err != nil && !waits {
			self, _ := supervisor.SelfOf(ctx)
			m.Gone(self.Path)
		}
		return p, err
	}
}
