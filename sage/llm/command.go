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

// Command is the command line of an agent that is run for each prompt, such as `claude -p`, `codex
// exec -` or a script. The answer is its stdout in UTF-8, where other bytes become U+FFFD. The
// command runs in its own process group, which is killed when the command exits, at the end of the
// context and after Timeout.
//
// Failures are not retried, since such commands retry requests to their server themselves. Another
// exit code than 0 and an empty answer are errors, which quote the end of stderr or stdout.
type Command struct {
	// Host runs the command.
	Host host.Commands
	// Argv is the program and its arguments. The prompt replaces each PromptArgument in an
	// argument. If there is none, the prompt is written to stdin.
	Argv    []string
	Dir     string        // the current directory if empty
	Env     []string      // the whole environment as KEY=value; nothing is inherited
	Timeout time.Duration // DefaultTimeout if zero
	// Format is the name of the command line of a language model whose JSON is on its stdout: see
	// host.Commands. Empty for the answer and nothing else.
	Format string
}

// PromptArgument stands for the prompt in Command.Argv.
const PromptArgument = "{prompt}"

// maxArgument is the length of the longest argument on Linux, without the final NUL.
const maxArgument = 128<<10 - 1

// Complete runs the command.
func (c *Command) Complete(ctx context.Context, prompt string) (string, error) {
	if len(c.Argv) == 0 {
		return "", fmt.Errorf("%w: the command is empty", ErrNotConfigured)
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
	text := strings.ToValidUTF8(string(r.Stdout), "\uFFFD")
	if c.Format != "" {
		text, err = c.Host.ReadAnswer(c.Format, r)
	}
	switch {
	case errors.Is(err, host.ErrReported): // it explains more than the end of the output
		if r.Failure != "" {
			err = fmt.Errorf("%s: %w", r.Failure, err)
		}
		return "", fmt.Errorf("asking %.200q: %w", c.Argv[0], err)
	case r.Failure != "":
		return "", fmt.Errorf("asking %.200q: %s%s", c.Argv[0], r.Failure, outputTail(r.Stderr, r.Stdout))
	case err != nil:
		return "", fmt.Errorf("asking %.200q: %w%s", c.Argv[0], err, outputTail(r.Stderr))
	case strings.TrimSpace(text) == "":
		return "", fmt.Errorf("asking %.200q: it gave no answer%s", c.Argv[0], outputTail(r.Stderr, r.Stdout))
	}
	return text, nil
}

// arguments puts the prompt into the arguments or returns it as input.
func (c *Command) arguments(prompt string) (argv []string, input string, err error) {
	argv = slices.Clone(c.Argv)
	input = prompt
	for i, a := range argv[1:] {
		if !strings.Contains(a, PromptArgument) {
			continue
		}
		input = ""
		if a == PromptArgument && strings.HasPrefix(prompt, "-") {
			a = " " + a // keeps the prompt from being taken for an option
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

// outputTail returns the end of the first output that has any text, as a suffix for an error.
func outputTail(outputs ...[]byte) string {
	for _, out := range outputs {
		if text := quote(string(out[max(0, len(out)-maxReason):])); text != "" {
			return fmt.Sprintf("; its output ends with %q", strings.ToValidUTF8(text[max(0, len(text)-500):], ""))
		}
	}
	return ""
}
