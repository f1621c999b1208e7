package quota

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
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
type Output func(ctx context.Context, path string, incarnation uint64, line func(string)) error

// Start returns the Start function of an agent, made from the one that starts its process. If it runs a known
// command line, how that has ended is read from its output.
func (m *Manager) Start(
	cli agentcli.CLI, read Output, start func(context.Context) (supervisor.Process, error),
) func(context.Context) (supervisor.Process, error) {
	return func(ctx context.Context) (supervisor.Process, error) {
		p, err := start(ctx)
		self, _ := supervisor.SelfOf(ctx)
		if err != nil {
			if _, waits := errors.AsType[*supervisor.RetryError](err); !waits {
				m.Gone(self.Path)
			}
			return nil, err
		}
		if cli == agentcli.Plain {
			return p, nil
		}
		return &run{Process: p, m: m, cli: cli, read: read, path: self.Path, incarnation: self.Incarnation}, nil
	}
}

// run is a process whose exit says how its command line has ended.
type run struct {
	supervisor.Process
	m           *Manager
	cli         agentcli.CLI
	read        Output
	path        string
	incarnation uint64
	asked       atomic.Bool // it was asked to stop
}

func (r *run) Stop() { r.asked.Store(true); r.Process.Stop() }
func (r *run) Kill() { r.asked.Store(true); r.Process.Kill() }

// StopTimeout implements supervisor.StopTimeouter.
func (r *run) StopTimeout() time.Duration {
	if t, ok := r.Process.(supervisor.StopTimeouter); ok {
		return t.StopTimeout()
	}
	return 0
}

// Wait waits for the end of the process, and reads what it has written.
func (r *run) Wait() supervisor.Exit {
	exit := r.Process.Wait()
	if r.asked.Load() {
		r.m.Gone(r.path)
		return exit
	}
	record, err := r.record(exit)
	if err != nil {
		r.m.Logger.Warn("cannot read the output of a command line", "path", r.path, "error", err)
		r.m.Gone(r.path)
		return exit
	}
	return r.m.After(r.path, exit, &record)
}

// record classifies the end of the command line by its output. A log has both streams.
func (r *run) record(exit supervisor.Exit) (agentcli.Record, error) {
	out := agentcli.Stream{CLI: r.cli}
	errs := agentcli.Stream{CLI: r.cli, Source: agentcli.FromStderr}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := r.read(ctx, r.path, r.incarnation, func(line string) {
		line += "\n"
		out.Write([]byte(line))
		errs.Write([]byte(line))
	})
	if err != nil {
		return agentcli.Record{}, err
	}
	end := agentcli.End{CLI: r.cli, Output: out.Report(), Stderr: errs.Report(), Now: time.Now()}
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
