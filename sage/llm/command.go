package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/sage/host"
)

// Command is the command line of an agent, asked by running it: `claude -p`,
// `codex exec -`, a script. Its answer is what it writes to stdout, in UTF-8
// (other bytes become U+FFFD). It runs in a process group of its own, which is
// killed with it, at the end of the context, and after Timeout.
//
// Nothing is tried again: a command knows its server, and does so itself. One
// that ends with another code than 0 has failed, with the end of its stderr (or
// of its stdout) in the error, and so has one that says nothing.
type Command struct {
	// Host runs the command.
	Host host.Commands
	// Argv is the program and its arguments. The prompt replaces PromptArgument
	// wherever that is in an argument; if it is nowhere, it is written to stdin.
	Argv    []string
	Dir     string        // the current one if empty
	Env     []string      // the whole environment, as KEY=value; none of it is inherited
	Timeout time.Duration // DefaultTimeout if zero
	Format  Format        // of what it writes
}

// PromptArgument stands for the prompt in Command.Argv.
const PromptArgument = "{prompt}"

// maxArgument is the longest argument on Linux, without its end.
const maxArgument = 128<<10 - 1

// Complete runs the command.
func (c *Command) Complete(ctx context.Context, prompt string) (string, error) {
	if len(c.Argv) == 0 {
		return "", fmt.Errorf("%w: the command is empty", ErrNotConfigured)
	}
	if err := c.Format.check(); err != nil {
		return "", err
	}
	argv, input, err := c.arguments(prompt)
	if err != nil {
		return "", err
	}
	timeout := cmp.Or(c.Timeout, DefaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it has not ended within %v", timeout))
	defer cancel()
	r, err := c.Host.RunCommand(ctx, host.Command{
		Argv: argv, Dir: c.Dir, Env: c.Env, Stdin: input, Limit: MaxAnswer,
	})
	if err != nil {
		return "", fmt.Errorf("asking %.200q: %w%s", c.Argv[0], err, outputTail(r.Stderr, r.Stdout))
	}
	text, err := c.Format.read(strings.ToValidUTF8(string(r.Stdout), "\uFFFD"))
	switch {
	case r.Failure != "":
		// What it says about itself explains more than what is left of its output.
		if _, reported := errors.AsType[reportedError](err); reported {
			return "", fmt.Errorf("asking %.200q: %s: %w", c.Argv[0], r.Failure, err)
		}
		return "", fmt.Errorf("asking %.200q: %s%s", c.Argv[0], r.Failure, outputTail(r.Stderr, r.Stdout))
	case err != nil:
		return "", fmt.Errorf("asking %.200q: %w%s", c.Argv[0], err, outputTail(r.Stderr))
	case strings.TrimSpace(text) == "":
		return "", fmt.Errorf("asking %.200q: it gave no answer%s", c.Argv[0], outputTail(r.Stderr, r.Stdout))
	}
	return text, nil
}

// arguments puts the prompt where it belongs.
func (c *Command) arguments(prompt string) (argv []string, input string, err error) {
	argv = slices.Clone(c.Argv)
	input = prompt
	for i, a := range argv[1:] {
		if !strings.Contains(a, PromptArgument) {
			continue
		}
		input = ""
		if a == PromptArgument && strings.HasPrefix(prompt, "-") {
			a = " " + a // a prompt is never an option, whatever is in it
		}
		a = strings.ReplaceAll(a, PromptArgument, prompt)
		if strings.IndexByte(a, 0) >= 0 {
			return nil, "", fmt.Errorf("the prompt contains a NUL byte: take %s out of the command, "+
				"so that it goes to stdin", PromptArgument)
		}
		if len(a) > maxArgument {
			return nil, "", fmt.Errorf("the prompt has %d bytes, and an argument can have %d: take %s out of the "+
				"command, so that it goes to stdin",
				len(prompt), maxArgument, PromptArgument)
		}
		argv[i+1] = a
	}
	return argv, input, nil
}

// outputTail returns the end of the first output with any text, as a suffix to an error.
func outputTail(outputs ...[]byte) string {
	for _, out := range outputs {
		if text := quote(string(out[max(0, len(out)-maxReason):])); text != "" {
			return fmt.Sprintf("; its output ends with %q", strings.ToValidUTF8(text[max(0, len(text)-500):], ""))
		}
	}
	return ""
}
