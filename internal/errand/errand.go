// Package errand runs commands to their end, each in a slot of its own that
// outlives the daemon: whoever is the daemon when it has ended is told how.
//
// Whoever sends somebody on an errand has written down that he does, and under
// which id, before he calls Start: after his death the next one goes through
// what is written and calls Start again with the same job, which starts
// nothing a second time. When he has written down how it ended, he calls
// Forget.
package errand

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// Job is a command that is run once.
type Job struct {
	// ID names the slot. Only one of an ID runs at a time.
	ID string
	// Attempt counts the tries of an ID from 1. One that was started before is
	// not started again.
	Attempt uint64
	Argv    []string
	Dir     string
	Env     []string // complete, see proc.Environ
	// Input is what it reads from its standard input, which is empty else.
	Input []byte
	// Timeout is how long it may take; 0: as long as it wants. Then it is asked
	// to stop, and killed after Grace (proc.DefaultGrace if 0) with all that it
	// has started, also when there is no daemon.
	Timeout time.Duration
	Grace   time.Duration
}

// Outcome is how an errand ended.
type Outcome string

// Outcomes.
const (
	Completed Outcome = "completed" // with exit code 0
	Failed    Outcome = "failed"    // with another one, by a signal, or it could not be started
	TimedOut  Outcome = "timed out"
	Stopped   Outcome = "stopped"     // it was asked to end, or killed, through here
	Lost      Outcome = "interrupted" // nobody saw how: its shim was killed, or the machine
)

// Result is what is known of an errand that has ended.
type Result struct {
	Outcome   Outcome
	Code      int    // exit code; -1 if it has none
	Signal    string // what ended it; empty if nothing did
	Err       error  // why it is not Completed
	StartedAt time.Time
	EndedAt   time.Time
	// Output are the last lines, bounded in number and length, without control characters.
	Output []string
}

// Bounds on Result.Output.
const (
	MaxLines = 100
	MaxBytes = 8 << 10
)

// overtime is how much longer than its time an errand is waited for before
// the daemon itself ends it: its shim is late, or hangs.
const overtime = 10 * time.Second

// Options of a Runner.
type Options struct {
	Dir        string // of the slots; nobody else may use it
	Executable string // that of shim.Options
	Logger     *slog.Logger
}

// Runner starts errands, and finds those of its predecessor.
type Runner struct {
	dir      string
	shims    *shim.Runtime
	closed   chan struct{}
	watching sync.WaitGroup
}

// Open makes a Runner.
func Open(o Options) (*Runner, error) {
	shims, err := shim.Open(shim.Options{Dir: o.Dir, Executable: o.Executable, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Runner{dir: o.Dir, shims: shims, closed: make(chan struct{})}, nil
}

// Dir is where the slots are.
func (r *Runner) Dir() string { return r.dir }

// Close lets go of all errands; they go on, and nobody here is told of their end.
func (r *Runner) Close() error {
	close(r.closed)
	r.watching.Wait()
	return r.shims.Close()
}

// Owner returns the ID of the job that a process belongs to; empty if to none.
func (r *Runner) Owner(l proc.Lineage) string {
	id, at := r.shims.Owner(l)
	if at < 0 {
		return ""
	}
	return id
}

// Tend makes anew what was removed of the slots' files, see shim.Runtime.
func (r *Runner) Tend() []string { return r.shims.Tend() }

// Errand is a job that has been started.
type Errand struct {
	job     Job
	session runtime.Session
	done    chan struct{}
}

// Start starts a job, or finds it if this attempt was started before, living or
// ended, and has not been forgotten. A job that cannot be run is an Errand that
// has ended. An error, but that of ctx, means that it is not known whether it
// runs, or that nothing can be started at present: call it again.
func (r *Runner) Start(ctx context.Context, j Job) (*Errand, error) {
	stdin, err := r.input(j)
	if err != nil {
		return nil, err
	}
	s, err := r.shims.Start(ctx, runtime.Launch{
		Path: j.ID, Incarnation: j.Attempt, Argv: j.Argv, Dir: j.Dir, Env: j.Env, Stdin: stdin, Timeout: j.Timeout,
		Grace: j.Grace,
	})
	switch {
	case err == nil:
		return r.begun(j, s), nil
	case errors.Is(err, runtime.ErrStale), errors.Is(err, runtime.ErrBusy):
		return r.Find(ctx, j)
	case errors.Is(err, proc.ErrCommand):
		return failed(j, err), nil
	}
	return nil, fmt.Errorf("errand %s: %w", j.ID, err)
}

// Find finds a job that was started before, living or ended. Errors are those
// of Start, and fs.ErrNotExist if nothing is left of it.
func (r *Runner) Find(ctx context.Context, j Job) (*Errand, error) {
	s, err := r.shims.Adopt(ctx, j.ID)
	if err == nil && s.Observe().Incarnation < j.Attempt {
		err = fmt.Errorf("attempt %d was never started: %w", j.Attempt, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("errand %s: %w", j.ID, err)
	}
	return r.begun(j, s), nil
}

func (r *Runner) begun(j Job, s runtime.Session) *Errand {
	e := &Errand{job: j, session: s, done: make(chan struct{})}
	r.watching.Go(func() { e.watch(r.closed) })
	return e
}

// watch ends an errand that takes too long for its shim, too.
func (e *Errand) watch(closed <-chan struct{}) {
	var late <-chan time.Time
	if e.job.Timeout > 0 {
		grace := e.job.Grace
		if grace <= 0 {
			grace = proc.DefaultGrace
		}
		left := e.job.Timeout
		if began := e.session.Observe().StartedAt; !began.IsZero() {
			left = min(left, max(0, left-time.Since(began)))
		}
		timer := time.NewTimer(left + grace + overtime)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-e.session.Done():
			close(e.done)
			return
		case <-late:
			e.session.Kill()
		case <-closed:
			return
		}
	}
}

// failed is an errand that could not be started.
func failed(j Job, err error) *Errand {
	e := &Errand{job: j, done: make(chan struct{})}
	e.session = stillborn{err, time.Now()}
	close(e.done)
	return e
}

// stillborn is the session of a command that cannot be run.
type stillborn struct {
	err error
	at  time.Time
}

// Done is closed when the errand has ended; never, if the Runner was closed before.
func (e *Errand) Done() <-chan struct{} { return e.done }

// Attempt is which one it is: a later one than that of the job, if that was superseded.
func (e *Errand) Attempt() uint64 { return e.session.Observe().Incarnation }

// StartedAt is when its process was started; zero if that is not known.
func (e *Errand) StartedAt() time.Time { return e.session.Observe().StartedAt }

// Stop asks it to end, Kill does not ask. They return at once; Done tells.
func (e *Errand) Stop() { e.session.Stop() }
func (e *Errand) Kill() { e.session.Kill() }

// Output are its last lines so far.
func (e *Errand) Output(ctx context.Context) []string {
	lines, err := e.session.Peek(ctx, MaxLines)
	if err != nil && len(lines) == 0 {
		return nil
	}
	return bounded(lines)
}

// Result is how it ended; once Done is closed.
func (e *Errand) Result(ctx context.Context) Result {
	o := e.session.Observe()
	exit := e.session.Exit()
	res := Result{Code: -1, StartedAt: o.StartedAt, EndedAt: o.ExitedAt, Err: exit.Err, Output: e.Output(ctx)}
	if res.EndedAt.IsZero() {
		res.EndedAt = time.Now()
	}
	var code *proc.ExitError
	if errors.As(exit.Err, &code) {
		res.Code = code.Code
		if code.Signal != 0 {
			res.Signal = strings.TrimPrefix((&proc.ExitError{Signal: code.Signal}).Error(), "ended by ")
		}
		if len(res.Output) == 0 {
			res.Output = bounded(code.LastOutput)
		}
	}
	switch {
	case errors.Is(exit.Err, runtime.ErrOverdue):
		res.Outcome = TimedOut
	case exit.Kind == supervisor.Normal:
		res.Outcome, res.Code = Completed, 0
	case exit.Kind == supervisor.Lost:
		res.Outcome = Lost
	case exit.Kind == supervisor.ShutDown, errors.Is(exit.Err, supervisor.ErrKilled):
		res.Outcome = Stopped
	default:
		res.Outcome = Failed
	}
	if res.Err == nil && res.Outcome != Completed {
		res.Err = errors.New(string(res.Outcome))
	}
	return res
}

// bounded keeps the last lines that fit, as plain text.
func bounded(lines []string) []string {
	lines = lines[max(0, len(lines)-MaxLines):]
	kept, size := make([]string, 0, len(lines)), 0
	for i := len(lines) - 1; i >= 0; i-- {
		line := proc.Plain(lines[i])
		if size += len(line) + 1; size > MaxBytes {
			if len(kept) == 0 {
				kept = append(kept, strings.ToValidUTF8(line[:MaxBytes-1], ""))
			}
			break
		}
		kept = append(kept, line)
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return kept
}

// input writes what a job reads to a file and returns its path; none if it reads nothing.
func (r *Runner) input(j Job) (string, error) {
	if len(j.Input) == 0 {
		return "", nil
	}
	file, err := r.inputFile(j.ID)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", fmt.Errorf("input of errand %s: %w", j.ID, err)
	}
	// One that runs already may be reading: what it has open is left alone.
	if err := private.WriteFile(file+".new", j.Input); err != nil {
		return "", fmt.Errorf("input of errand %s: %w", j.ID, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return "", fmt.Errorf("input of errand %s: %w", j.ID, err)
	}
	return filepath.Abs(file)
}

func (r *Runner) inputFile(id string) (string, error) {
	name, err := wire.DirName(id)
	return filepath.Join(r.dir+".input", name), err
}

// List are the ids of all errands that are not forgotten, and whether each
// still lives, or may.
func (r *Runner) List(ctx context.Context) (map[string]bool, error) {
	all, err := r.shims.List(ctx)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]bool, len(all))
	for _, o := range all {
		ids[o.Path] = o.Life != runtime.Dead
	}
	return ids, nil
}

// Forget removes all that is left of an errand that has ended. One that lives
// is an error; one that nothing is known of is not.
func (r *Runner) Forget(ctx context.Context, id string) error {
	if file, err := r.inputFile(id); err == nil {
		os.Remove(file)
		os.Remove(file + ".new")
	}
	return r.shims.Remove(ctx, id)
}

// Halt stops all errands that live, asked first, at the same time. Their ends are kept.
func (r *Runner) Halt(ctx context.Context) error {
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	var living []runtime.Session
	var errs []error
	for id, lives := range all {
		if !lives {
			continue
		}
		s, err := r.shims.Adopt(ctx, id)
		switch {
		case err == nil:
			s.Stop()
			living = append(living, s)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("errand %s: %w", id, err))
		}
	}
	patience := time.NewTimer(proc.DefaultGrace)
	defer patience.Stop()
	over := patience.C
	for i := 0; i < len(living); {
		select {
		case <-living[i].Done():
			i++
		case <-over:
			for _, s := range living[i:] {
				s.Kill()
			}
			over = nil
		case <-ctx.Done():
			return errors.Join(append(errs, ctx.Err())...)
		}
	}
	return errors.Join(errs...)
}

// End is Halt, and forgets them: nobody will ask for them any more.
func (r *Runner) End(ctx context.Context) error {
	if err := r.Halt(ctx); err != nil {
		return err
	}
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for id := range all {
		errs = append(errs, r.Forget(ctx, id))
	}
	return errors.Join(errs...)
}
