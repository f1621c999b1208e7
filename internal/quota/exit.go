package quota

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// EndError is the error of a run of a command line that has not completed its work. Its text says why, where the
// exit code says little.
type EndError struct {
	Text string
	Wait error // wraps a supervisor.RetryError if the agent waits for its quota
	Exit error // that of the process; nil if it has exited with 0
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
		return supervisor.Exit{Kind: supervisor.Failure, Err: &EndError{text, wait, exit.Err}}
	}
	if r.Kind == outcome.Completed || r.Obstacle == outcome.Crash && exit.Err != nil {
		return exit // the exit says as much
	}
	return supervisor.Exit{Kind: max(exit.Kind, supervisor.Failure), Err: &EndError{Text: r.Text(), Exit: exit.Err}}
}

// Output reads what an incarnation of an agent has written, line by line.
type Output func(ctx context.Context, who token.Caller, line func(string)) error

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

// Read returns what is known of a run of a command line by its exit and its output, which has both streams. asked
// means that it was asked to stop. If the output cannot be read, nothing is known.
func Read(
	cli agentcli.CLI, output Output, who token.Caller, exit supervisor.Exit, asked bool,
) (agentcli.Record, error) {
	out := agentcli.Stream{CLI: cli}
	errs := agentcli.Stream{CLI: cli, Source: agentcli.FromStderr}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := output(ctx, who, func(line string) {
		line += "\n"
		out.Write([]byte(line))
		errs.Write([]byte(line))
	})
	if err != nil {
		return agentcli.Record{CLI: cli}, err
	}
	end := agentcli.End{CLI: cli, Output: out.Report(), Stderr: errs.Report(), Now: time.Now()}
	if asked {
		end.Stopped = agentcli.ByOperator
	}
	if !end.Output.Seen { // it was not asked for JSON
		end.CLI = agentcli.Plain
	}
	if exit.Kind != supervisor.Normal {
		end.Exit = exit.String()
	}
	if e, ok := errors.AsType[*proc.ExitError](exit.Err); ok {
		end.Code = max(0, e.Code)
	}
	return end.Record(), nil
}
