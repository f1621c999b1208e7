// Package host declares the services that a Sage program needs from the process that runs it:
// storage for beliefs, commands and output.
//
// Arguments and results are plain values, and no call returns a reference into the host, so that a
// program can run in another process than its supervisors. Only the agents cross the border as Go
// functions, in a supervisor.Spec: the agents of a program, which its host runs with the context of
// WithAgent if not below a supervisor, and the agents of a coppice.toml that are children in a
// program.
package host

import (
	"context"
	"errors"

	"github.com/coppice-dev/coppice/supervisor"
)

// Host provides all services. Its methods are safe for concurrent use.
type Host interface {
	Beliefs
	Commands
	Output
}

// Agent identifies one incarnation of an agent.
type Agent struct {
	Path        string
	Incarnation uint64
}

type agentKey struct{}

// WithAgent returns the context in which an agent runs whose supervisor is in another process.
func WithAgent(ctx context.Context, a Agent) context.Context {
	return context.WithValue(ctx, agentKey{}, a)
}

// AgentOf returns the agent that runs in ctx, or that the code in ctx works for. It is zero if there
// is none.
func AgentOf(ctx context.Context) Agent {
	if a, ok := ctx.Value(agentKey{}).(Agent); ok {
		return a
	}
	self, _ := supervisor.SelfOf(ctx)
	return Agent{Path: self.Path, Incarnation: self.Incarnation}
}

// Beliefs stores persistent beliefs by the path of the agent and the name of the belief. Values
// are JSON.
type Beliefs interface {
	// OpenBeliefs returns the stored beliefs of an agent. From then on only this incarnation can
	// store beliefs. Names are the persistent beliefs that the agent declares.
	OpenBeliefs(ctx context.Context, a Agent, names []string) (map[string]string, error)
	// SaveBeliefs stores all of the values or none. It returns when they are durable.
	SaveBeliefs(ctx context.Context, a Agent, values map[string]string) error
	// CloseBeliefs ends the access that OpenBeliefs gave.
	CloseBeliefs(a Agent)
}

// Commands runs commands.
type Commands interface {
	// RunCommand runs a command in its own process group until it exits. It kills the group when
	// ctx ends. An exit code other than 0 is not an error. The error wraps ErrNotStarted,
	// ErrTooMuchOutput or the cause of ctx.
	RunCommand(ctx context.Context, c Command) (CommandResult, error)
	// ReadAnswer returns the answer in the output of a command line of a language model, such as
	// claude: its name is the format. The error wraps ErrReported if the command line itself
	// reports why there is none.
	ReadAnswer(format string, r CommandResult) (string, error)
}

// Command is a command and its surroundings.
type Command struct {
	Argv  []string
	Dir   string   // the working directory of the host if empty
	Env   []string // the whole environment as KEY=value
	Stdin string
	Limit int // bytes of the standard output and of the standard error
}

// CommandResult is the output and the exit code of a command.
type CommandResult struct {
	ExitCode       int    // 128 + the signal number if a signal ended the command
	Failure        string // the failure as text; "" after exit code 0
	Stdout, Stderr []byte
}

// Errors of Commands.
var (
	ErrNotStarted    = errors.New("command cannot be run")
	ErrTooMuchOutput = errors.New("too much output")
	ErrReported      = errors.New("it failed")
)

// Output receives the output and the reports of agents.
type Output interface {
	// Print writes one line to the standard output or the standard error of an agent.
	Print(path string, stderr bool, line string)
	// Started reports that an agent has started; ctx is that of its run.
	Started(ctx context.Context, a Agent)
}
