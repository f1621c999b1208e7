// Package host declares what a Sage program needs from the process that runs
// it: storage for beliefs, commands, and a place for its output.
//
// Arguments and results are plain values, and no call returns a reference into
// the host. So each call can become a request and its answer on a socket, with
// the end of its context as one more message, when programs run in processes of
// their own. Two things cross the border as Go functions and need one process
// today: the agents of a program, which a host runs as the children of its own
// supervisors, and the agents of a coppice.toml that a program has as children
// (both are parts of a supervisor.Spec).
package host

import (
	"context"
	"errors"
)

// Host is everything that a program needs from the process that runs it. Its
// methods are safe for concurrent use.
type Host interface {
	Beliefs
	Commands
	Output
}

// Agent names one incarnation of an agent.
type Agent struct {
	Path        string
	Incarnation uint64
}

// Beliefs stores the persistent beliefs of agents, by the path of the agent and
// the name of the belief. Values are JSON.
type Beliefs interface {
	// OpenBeliefs returns the stored beliefs of an agent. From then on only this
	// incarnation can store any. Names are the persistent beliefs that it declares.
	OpenBeliefs(ctx context.Context, a Agent, names []string) (map[string]string, error)
	// SaveBeliefs stores values, all of them or none, and returns when they are durable.
	SaveBeliefs(ctx context.Context, a Agent, values map[string]string) error
	// CloseBeliefs ends what OpenBeliefs began.
	CloseBeliefs(a Agent)
}

// Commands runs commands.
type Commands interface {
	// RunCommand runs a command in a process group of its own until it exits, and
	// kills the group when ctx ends. An exit code other than 0 is no error. The
	// error wraps ErrNotStarted, ErrTooMuchOutput or the cause of ctx.
	RunCommand(ctx context.Context, c Command) (CommandResult, error)
}

// Command is a command and its surroundings.
type Command struct {
	Argv  []string
	Dir   string   // the working directory of the host if empty
	Env   []string // the whole environment, as KEY=value
	Stdin string
	Limit int // of bytes of the standard output, and of the standard error
}

// CommandResult is the output and the exit code of a command.
type CommandResult struct {
	ExitCode       int    // 128 + the number of the signal, if a signal ended it
	Failure        string // how it ended, as text; "" after exit code 0
	Stdout, Stderr []byte
}

// Errors of RunCommand.
var (
	ErrNotStarted    = errors.New("command cannot be run")
	ErrTooMuchOutput = errors.New("too much output")
)

// Output takes what agents print and report.
type Output interface {
	// Print writes one line to the standard output or the standard error of an agent.
	Print(path string, stderr bool, line string)
	// Started reports that an agent has started; ctx is that of its run.
	Started(ctx context.Context, a Agent)
}
