package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// EnvCheck marks a check and all that it starts, so that nothing of it stays.
const EnvCheck = proc.EnvPrefix + "CHECK"

// MaxOutput is how many bytes a check may write to stdout and to stderr.
const MaxOutput = 64 << 10

// maxChecks is how many checks run at the same time. It is more than a machine
// has cores, as those that wait for something must not hold up the others.
const maxChecks = 32

// Check is what asks how many instances are wanted.
type Check struct {
	Argv    []string
	Dir     string
	Env     []string // complete, as KEY=value; without EnvCheck
	Mark    string   // value of EnvCheck that nothing else on this machine has
	Timeout time.Duration
}

// Runner runs checks beside each other, not too many at a time. NewRunner makes it.
type Runner struct {
	sweeper proc.Sweeper
	slots   chan struct{}
}

// NewRunner makes a Runner.
func NewRunner() *Runner { return &Runner{slots: make(chan struct{}, maxChecks)} }

// Run runs a check to its end and returns its answer. A check that takes longer
// than its timeout, that writes too much, or that runs when ctx ends, is killed. With a
// check ends everything that it has started, in whatever session: what a program
// that was killed has left is gone before the next one with this mark begins.
func (r *Runner) Run(ctx context.Context, c Check) (int, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	entry := EnvCheck + "=" + c.Mark
	if err := r.sweeper.SweepUnused(ctx, entry); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return 0, fmt.Errorf("what the last check has started cannot be ended: %w", err)
	}
	defer func() {
		// What is still there then is dealt with by the next check.
		r.sweeper.Sweep(context.WithoutCancel(ctx), entry)
	}()
	late := fmt.Errorf("it has not ended within %v", c.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, late)
	defer cancel()
	result, err := proc.Run(ctx, proc.Command{Argv: c.Argv, Dir: c.Dir, Env: append(c.Env[:len(c.Env):len(c.Env)], entry)}, "", MaxOutput)
	switch {
	case err != nil:
		return 0, err
	case result.Exit.Kind != supervisor.Normal:
		return 0, fmt.Errorf("%v%s", result.Exit, lastWords(result.Stderr))
	}
	n, err := ParseAnswer(result.Stdout)
	if err != nil {
		err = fmt.Errorf("%w%s", err, lastWords(result.Stderr))
	}
	return n, err
}

// lastWords is the last line that a check has written to stderr, for people.
func lastWords(stderr []byte) string {
	text := strings.TrimSpace(string(stderr))
	text = proc.Plain(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	if text == "" {
		return ""
	}
	return ": " + spec.Quote(text)
}
