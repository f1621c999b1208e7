// Package gate evaluates what orders and blocked tasks wait for: commands that are run until they
// succeed.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

const (
	envCheck     = "COPPICE_ORDER_CHECK="
	sweepTimeout = 5 * time.Second // for the processes that a check has left
	maxChecks    = 8               // that run concurrently
)

// Check is a command that tells whether a gate is open: exit code 0 means that it is.
type Check struct {
	Argv  []string
	Dir   string
	Env   []string // complete, see proc.Environ
	Limit time.Duration
	Input []byte // standard input
}

// Result is the result of a check.
type Result struct {
	Open   bool
	Exit   string   // how the command has ended, such as "exit code 1"
	Output []string // its last lines
}

// Runner runs the checks of a project. A check never outlives it, unless the daemon is killed: the
// next Runner ends it.
type Runner struct {
	mark   string // an entry in the environment of all checks of the project
	logger *slog.Logger
	slots  chan struct{}
	swept  chan struct{} // closed when the checks of the previous daemon have ended
	// Each check has a number, by which its processes are found.
	number  atomic.Uint64
	sweeper proc.Sweeper
}

// NewRunner returns a Runner for the project whose jobs have their slots in a directory. It runs
// nothing until Sweep has returned.
func NewRunner(dir string, logger *slog.Logger) *Runner {
	return &Runner{
		mark: mark(dir), logger: cmp.Or(logger, slog.Default()),
		slots: make(chan struct{}, maxChecks), swept: make(chan struct{}),
	}
}

// mark returns an environment entry that identifies the checks of a project.
func mark(dir string) string { return "COPPICE_CHECK=" + wire.Marker(dir) }

// End ends the checks that a killed daemon has left, where processes can be found.
func End(ctx context.Context, dir string) error {
	var s proc.Sweeper
	if err := s.Sweep(ctx, mark(dir)); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Sweep ends the checks that a killed daemon has left. Call it once.
func (r *Runner) Sweep(ctx context.Context) {
	defer close(r.swept)
	if err := r.sweeper.Sweep(ctx, r.mark); err != nil && ctx.Err() == nil {
		r.logger.Debug("checks of the last daemon may still run", "error", err)
	}
}

// Wait runs a check when there is a slot for it. It reports false for done if ctx ends before.
func (r *Runner) Wait(ctx context.Context, c Check) (result Result, done bool) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return Result{}, false
	}
	return r.Run(ctx, c), true
}

// Run runs a check at once. After its limit, and when ctx ends, it is killed with all its processes.
func (r *Runner) Run(ctx context.Context, c Check) Result {
	select {
	case <-r.swept:
	case <-ctx.Done():
		return Result{Exit: context.Cause(ctx).Error()}
	}
	one := fmt.Sprintf("%s%s.%d", envCheck, r.mark, r.number.Add(1))
	defer func() { // processes that have left the group of the check
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
		defer cancel()
		r.sweeper.Sweep(ctx, one)
	}()
	env := append(c.Env[:len(c.Env):len(c.Env)], r.mark, one)
	stdin, endInput, err := pipe(c.Input)
	if err != nil {
		return Result{Exit: err.Error()}
	}
	defer endInput()
	p, err := proc.Start(proc.Command{Argv: c.Argv, Dir: c.Dir, Env: env, Stdin: stdin}, proc.Output{})
	if err != nil {
		return Result{Exit: err.Error(), Output: []string{err.Error()}}
	}
	killed := ""
	select {
	case <-p.Done():
	case <-time.After(c.Limit):
		killed = fmt.Sprintf("timed out after %v", c.Limit)
	case <-ctx.Done():
		killed = context.Cause(ctx).Error()
	}
	if killed != "" {
		p.Kill()
		<-p.Done()
	}
	<-p.Drained()
	exit := p.Exit()
	return Result{
		Open: killed == "" && exit.Kind == supervisor.Normal, Exit: cmp.Or(killed, exit.String()),
		Output: p.LastOutput(),
	}
}

// pipe returns a file from which input is read; nil for no input. A program that does not read it is not waited for.
func pipe(input []byte) (file *os.File, end func(), err error) {
	if len(input) == 0 {
		return nil, func() {}, nil
	}
	file, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.Write(input)
		w.Close()
	}()
	return file, func() {
		file.Close()
		w.Close()
		<-written
	}, nil
}
