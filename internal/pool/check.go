package pool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// envCheck marks a check and all processes that it starts, which are ended with it. envChecks marks
// all checks of a project, for the next daemon if this one is killed.
const (
	envCheck  = proc.EnvPrefix + "CHECK"
	envChecks = proc.EnvPrefix + "CHECKS"
)

// maxOutput is the number of bytes that a check may write to stdout, and to stderr.
const maxOutput = 64 << 10

// maxChecks is the number of checks that run in parallel. It exceeds the usual number of cores,
// since checks that wait for something must not delay the others.
const maxChecks = 32

// Check is a command that prints how many instances are wanted.
type Check struct {
	Argv    []string
	Dir     string
	Env     []string // complete, as KEY=value, except for envCheck and envChecks
	Mark    string   // the value of envCheck, unique on this machine
	Timeout time.Duration
	// NoNewPrivileges, Paths and User are those of proc.Command.
	NoNewPrivileges bool
	Paths           *landlock.Paths
	User            *account.Account
}

// Runner runs checks in parallel, at most maxChecks at a time. NewRunner makes it.
type Runner struct {
	project string // the value of envChecks; nothing is cleared if it is empty
	sweeper proc.Sweeper
	slots   chan struct{}
	mu      sync.Mutex
	left    map[string]bool // marks of checks with processes that could not be ended
}

// NewRunner makes a Runner for a project, whose name must be unique on this machine.
func NewRunner(project string) *Runner {
	return &Runner{project: project, slots: make(chan struct{}, maxChecks), left: make(map[string]bool)}
}

// Clear ends all checks of the project and all processes that they have started. Before the first
// Run these are the checks of a daemon that was killed.
func (r *Runner) Clear(ctx context.Context) error {
	if r.project == "" {
		return nil
	}
	if err := r.sweeper.Sweep(ctx, envChecks+"="+r.project); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("ending processes of the checks of the last daemon: %w", err)
	}
	return nil
}

// sweep ends the processes of a check. It remembers a check whose processes cannot be ended.
func (r *Runner) sweep(ctx context.Context, c Check) error {
	err := r.sweeper.Sweep(ctx, envCheck+"="+c.Mark)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.left, c.Mark); err != nil {
		r.left[c.Mark] = true
	}
	return err
}

// Run runs a check to its end and returns its answer. A check is killed if it exceeds its timeout,
// writes too much, or still runs when ctx ends. All processes that a check has started end with it,
// in any session. The next check with its mark does not begin before that.
func (r *Runner) Run(ctx context.Context, c Check) (int, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	r.mu.Lock()
	left := r.left[c.Mark]
	r.mu.Unlock()
	if left {
		if err := r.sweep(ctx, c); err != nil {
			return 0, fmt.Errorf("ending processes of the last check: %w", err)
		}
	}
	defer r.sweep(context.WithoutCancel(ctx), c)
	late := fmt.Errorf("it has not ended within %v", c.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, late)
	defer cancel()
	result, err := proc.Run(ctx, proc.Command{
		Argv: c.Argv, Dir: c.Dir, NoNewPrivileges: c.NoNewPrivileges, Paths: c.Paths, User: c.User,
		Env: append(c.Env[:len(c.Env):len(c.Env)], envCheck+"="+c.Mark, envChecks+"="+r.project),
	}, "", maxOutput)
	switch {
	case err != nil:
		return 0, err
	case result.Exit.Kind != supervisor.Normal:
		return 0, fmt.Errorf("%v%s", result.Exit, lastLine(result.Stderr))
	}
	n, err := parseAnswer(result.Stdout)
	if err != nil {
		err = fmt.Errorf("%w%s", err, lastLine(result.Stderr))
	}
	return n, err
}

// lastLine returns the last line of stderr, for the end of an error text.
func lastLine(stderr []byte) string {
	text := strings.TrimSpace(string(stderr))
	text = plaintext.Line(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	if text == "" {
		return ""
	}
	return ": " + spec.Quote(text)
}

// parseAnswer reads the output of a check: one integer, which may be surrounded by white space. A
// number out of range becomes the nearest one in range.
func parseAnswer(stdout []byte) (int, error) {
	text := string(bytes.TrimSpace(stdout))
	if text == "" {
		return 0, errors.New("it has printed nothing, expected an integer")
	}
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "+"), "-")
	n, err := strconv.ParseInt(text, 10, 64)
	// ParseInt stops early at a number out of range, so the rest is checked here.
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("it has printed %s, expected an integer", spec.Quote(text))
	}
	return int(min(max(n, math.MinInt32), math.MaxInt32)), nil
}
