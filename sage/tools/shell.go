package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/library"
)

// Shell runs commands without a shell, so arguments are never interpreted. Each command runs in
// its own process group. The group is killed when the command exits, when the context ends and
// after Timeout. Stdin is empty.
type Shell struct {
	Host    host.Commands // runs the commands
	Dir     string        // the current directory if empty
	Env     []string      // the whole environment as KEY=value; that of Inherited if nil
	Timeout time.Duration // of one command; DefaultShellTimeout if zero
}

// ShellResult is the result of a command that has exited with any code.
type ShellResult struct {
	ExitCode int // 128 + the signal number if a signal ended the command
	// At most 10 MiB each. Bytes that are not UTF-8 become U+FFFD.
	Stdout, Stderr string
}

// Run runs a program with arguments. An exit code other than 0 is not an error. It is an error if
// the program cannot run, writes too much or takes too long.
func (s *Shell) Run(ctx context.Context, argv []string) (ShellResult, error) {
	if len(argv) == 0 {
		return ShellResult{}, errors.New(`run a command: nothing to run: want the program and its ` +
			`arguments, as in ["ls", "-l"]`)
	}
	env := s.Env
	if env == nil {
		env = Inherited(os.Environ())
	}
	timeout := cmp.Or(s.Timeout, DefaultShellTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it has not ended within %v", timeout))
	defer cancel()
	if s.Host == nil {
		return ShellResult{}, fmt.Errorf("run %.200q: %w: the host runs no commands", argv, host.ErrNotStarted)
	}
	r, err := s.Host.RunCommand(ctx, host.Command{Argv: argv, Dir: s.Dir, Env: env, Limit: MaxOutput})
	if err != nil {
		if errors.Is(err, host.ErrTooMuchOutput) {
			err = fmt.Errorf("%w: have it write to a file", err)
		}
		return ShellResult{}, fmt.Errorf("run %.200q: %w", argv, err)
	}
	return ShellResult{
		ExitCode: r.ExitCode,
		Stdout:   strings.ToValidUTF8(string(r.Stdout), "\uFFFD"),
		Stderr:   strings.ToValidUTF8(string(r.Stderr), "\uFFFD"),
	}, nil
}

// RunLine runs a line of plain words separated by spaces, such as "git status --short". A line
// with a character that has a meaning in a shell is rejected: no shell would interpret it, and
// text that is pasted into such a line can become another command.
func (s *Shell) RunLine(ctx context.Context, line string) (ShellResult, error) {
	argv, err := words(line)
	if err != nil {
		return ShellResult{}, err
	}
	return s.Run(ctx, argv)
}

// words splits a line for RunLine.
func words(line string) ([]string, error) {
	if bad, found := library.ShellSyntax(line); found {
		return nil, fmt.Errorf("run %.200q: %.10q means something to a shell, and there is none here: "+
			`give the words one by one, as in ["grep", "-c", "a b", "notes.txt"], or ask for a shell, as in ["sh", `+
			`"-c", "ls *.txt | wc -l"]`,
			line, bad)
	}
	argv := strings.Fields(line)
	if len(argv) == 0 {
		return nil, fmt.Errorf("run %.200q: nothing to run", line)
	}
	if strings.Contains(argv[0], "=") {
		return nil, fmt.Errorf(`run %.200q: there is no shell here that sets variables: want ["env", %q, ...]`, line,
			argv[0])
	}
	return argv, nil
}

// EnvToken is the variable with the token that identifies an agent.
const EnvToken = "COPPICE_TOKEN"

// notInherited are the variables with secrets of the program.
var notInherited = []string{"SAGE_API_KEY", EnvDatabase, EnvToken}

// Inherited returns the environment that a command inherits: all variables except the key of the
// model, the database and the token of the agent.
func Inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, ok := strings.Cut(kv, "=")
		return !ok || name == "" || slices.Contains(notInherited, name)
	})
}
