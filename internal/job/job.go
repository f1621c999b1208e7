// Package job runs commands to their end, each in a slot that outlives the daemon, so
// that the daemon of the time when a job ends learns how it ended.
//
// A caller records a job and its ID before it calls Start. After a crash, the next daemon
// goes through these records and calls Start again with the same Spec, which starts
// nothing twice. Once the result is recorded, the caller calls Forget.
package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// Spec describes a command that runs once.
type Spec struct {
	// ID names the slot. One job of an ID runs at a time.
	ID string
	// Attempt counts the attempts of an ID from 1. An attempt is started only once.
	Attempt uint64
	Argv    []string
	Dir     string
	Env     []string // complete, see proc.Environ
	Input   []byte   // standard input
	// Timeout bounds the job; 0 means no bound. After it the job is asked to stop, and
	// after Grace (proc.DefaultGrace if 0) it is killed with all its descendants. The
	// shim sees to that, so it happens without a daemon, too.
	Timeout time.Duration
	Grace   time.Duration
}

// Outcome tells how a job ended.
type Outcome string

// Outcomes.
const (
	Completed Outcome = "completed" // exit code 0
	Failed    Outcome = "failed"    // another exit code, a signal, or a failed start
	TimedOut  Outcome = "timed out"
	Stopped   Outcome = "stopped"     // by Stop or Kill
	Lost      Outcome = "interrupted" // unknown: the shim was killed, or the machine went down
)

// Result describes a job that has ended.
type Result struct {
	Outcome   Outcome
	Code      int    // exit code; -1 if it has none
	Signal    string // that ended it, if any
	Err       error  // why it is not Completed
	StartedAt time.Time
	EndedAt   time.Time
	// Output holds the last lines without control characters, at most maxLines and MaxBytes.
	Output []string
}

// Bounds on Result.Output.
const (
	maxLines = 100
	MaxBytes = 8 << 10
)

// overtime is the time after timeout and grace period that the shim has to end a job
// before the daemon kills it.
const overtime = 10 * time.Second

// Options configure a Runner.
type Options struct {
	Dir      string // of the slots; it belongs to this Runner alone
	Deadline string // see shim.Options; empty if there is none
	Logger   *slog.Logger
}

// Runner starts jobs and finds those that an earlier Runner started.
type Runner struct {
	dir      string
	shims    *shim.Runtime
	closed   chan struct{}
	watching sync.WaitGroup
}

// Open returns a Runner; call Close to release it.
func Open(o Options) (*Runner, error) {
	shims, err := shim.Open(shim.Options{Dir: o.Dir, Deadline: o.Deadline, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Runner{dir: o.Dir, shims: shims, closed: make(chan struct{})}, nil
}

// Dir returns the directory of the slots.
func (r *Runner) Dir() string { return r.dir }

// Close stops watching all jobs. They continue to run, and Done is not closed when they end.
func (r *Runner) Close() error {
	close(r.closed)
	r.watching.Wait()
	return r.shims.Close()
}

// Owner returns the ID of the job that a process belongs to, or "".
func (r *Runner) Owner(l proc.Lineage) string {
	id, at := r.shims.Owner(l)
	if at < 0 {
		return ""
	}
	return id
}

// Repair restores files of the slots that were removed, see shim.Runtime.
func (r *Runner) Repair() []string { return r.shims.Repair() }

// Job is a command that was started.
type Job struct {
	spec    Spec
	session session
	done    chan struct{}
}

// session is the part of a runtime.Session that a Job needs.
type session interface {
	Done() <-chan struct{}
	Exit() supervisor.Exit
	Stop()
	Kill()
	Observe() runtime.Observation
	Peek(ctx context.Context, n int) ([]string, error)
}

// Start starts a job. An attempt that was started before, whether it still runs or has
// ended, is returned instead until it is forgotten. A command that cannot be run is a Job
// that has ended. An error other than that of ctx means that it is unknown whether the
// job runs, or that nothing can be started now: call Start again.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Job, error) {
	stdin, err := r.input(spec)
	if err != nil {
		return nil, err
	}
	s, err := r.shims.Start(ctx, runtime.Launch{
		Path: spec.ID, Incarnation: spec.Attempt, Argv: spec.Argv, Dir: spec.Dir, Env: spec.Env, Stdin: stdin,
		Timeout: spec.Timeout, Grace: spec.Grace,
	})
	switch {
	case err == nil:
		return r.follow(spec, s), nil
	case errors.Is(err, runtime.ErrStale), errors.Is(err, runtime.ErrBusy):
		return r.Find(ctx, spec)
	case errors.Is(err, proc.ErrCommand):
		return failed(spec, err), nil
	}
	return nil, fmt.Errorf("starting job %s: %w", spec.ID, err)
}

// Find returns a job that was started before, whether it still runs or has ended. Errors
// are those of Start, and fs.ErrNotExist if nothing is left of the job.
func (r *Runner) Find(ctx context.Context, spec Spec) (*Job, error) {
	s, err := r.shims.Adopt(ctx, spec.ID)
	if err == nil && s.Observe().Incarnation < spec.Attempt {
		err = fmt.Errorf("attempt %d was never started: %w", spec.Attempt, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("finding job %s: %w", spec.ID, err)
	}
	return r.follow(spec, s), nil
}

func (r *Runner) follow(spec Spec, s runtime.Session) *Job {
	j := &Job{spec: spec, session: s, done: make(chan struct{})}
	r.watching.Go(func() { j.watch(r.closed) })
	return j
}

// watch closes done when the job ends, and kills a job that its shim does not end in time.
func (j *Job) watch(closed <-chan struct{}) {
	var late <-chan time.Time
	if j.spec.Timeout > 0 {
		grace := j.spec.Grace
		if grace <= 0 {
			grace = proc.DefaultGrace
		}
		left := j.spec.Timeout
		if began := j.session.Observe().StartedAt; !began.IsZero() {
			left = min(left, max(0, left-time.Since(began)))
		}
		late = time.After(left + grace + overtime)
	}
	for {
		select {
		case <-j.session.Done():
			close(j.done)
			return
		case <-late:
			j.session.Kill()
		case <-closed:
			return
		}
	}
}

// failed returns a job that could not be started.
func failed(spec Spec, err error) *Job {
	done := make(chan struct{})
	close(done)
	return &Job{spec: spec, session: failedStart{err, time.Now(), done}, done: done}
}

// failedStart is the session of a command that could not be started.
type failedStart struct {
	err  error
	at   time.Time
	done chan struct{}
}

func (s failedStart) Done() <-chan struct{} { return s.done }
func (s failedStart) Exit() supervisor.Exit {
	return supervisor.Exit{Kind: supervisor.Failure, Err: s.err}
}
func (failedStart) Stop() {}
func (failedStart) Kill() {}
func (s failedStart) Observe() runtime.Observation {
	return runtime.Observation{Life: runtime.Dead, StartedAt: s.at, ExitedAt: s.at, Exit: s.Exit()}
}
func (failedStart) Peek(context.Context, int) ([]string, error) { return nil, nil }

// Done is closed when the job has ended, unless the Runner was closed before.
func (j *Job) Done() <-chan struct{} { return j.done }

// Attempt returns the number of the attempt: that of the Spec, or that of the later
// attempt that superseded it.
func (j *Job) Attempt() uint64 { return j.session.Observe().Incarnation }

// StartedAt returns the time at which its process started; zero if unknown.
func (j *Job) StartedAt() time.Time { return j.session.Observe().StartedAt }

// Stop asks the job to end and Kill kills it. Both return at once; wait for Done.
func (j *Job) Stop() { j.session.Stop() }
func (j *Job) Kill() { j.session.Kill() }

// Output returns its last lines so far.
func (j *Job) Output(ctx context.Context) []string {
	lines, err := j.session.Peek(ctx, maxLines)
	if err != nil && len(lines) == 0 {
		return nil
	}
	return bounded(lines)
}

// Result returns how the job ended. Call it after Done is closed.
func (j *Job) Result(ctx context.Context) Result {
	o := j.session.Observe()
	exit := j.session.Exit()
	res := Result{Code: -1, StartedAt: o.StartedAt, EndedAt: o.ExitedAt, Err: exit.Err, Output: j.Output(ctx)}
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

// bounded returns the last lines that fit, as plain text.
func bounded(lines []string) []string {
	lines = lines[max(0, len(lines)-maxLines):]
	kept, size := make([]string, 0, len(lines)), 0
	for _, line := range slices.Backward(lines) {
		line = plaintext.Line(line)
		if size += len(line) + 1; size > MaxBytes {
			if len(kept) == 0 {
				kept = append(kept, strings.ToValidUTF8(line[:MaxBytes-1], ""))
			}
			break
		}
		kept = append(kept, line)
	}
	slices.Reverse(kept)
	return kept
}

// input writes the standard input of a job to a file and returns its path, or "" if the
// job has none.
func (r *Runner) input(spec Spec) (string, error) {
	if len(spec.Input) == 0 {
		return "", nil
	}
	file, err := r.inputFile(spec.ID)
	if err != nil {
		return "", err
	}
	err = os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		// A job that runs already may have the old file open, which a rename leaves alone.
		err = private.WriteFile(file+".new", spec.Input)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return "", fmt.Errorf("writing input of job %s: %w", spec.ID, err)
	}
	return filepath.Abs(file)
}

func (r *Runner) inputFile(id string) (string, error) {
	name, err := wire.DirName(id)
	return filepath.Join(r.dir+".input", name), err
}

// List returns the IDs of all jobs that are not forgotten, and whether each is, or may
// be, still running.
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

// Forget removes all files of a job that has ended. It returns an error for a job that
// runs, and nil for one that does not exist.
func (r *Runner) Forget(ctx context.Context, id string) error {
	if file, err := r.inputFile(id); err == nil {
		os.Remove(file)
		os.Remove(file + ".new")
	}
	return r.shims.Remove(ctx, id)
}

// halt stops all running jobs concurrently and returns how many there were. It asks them
// to stop and kills them after proc.DefaultGrace. Their results are kept. It also kills what is
// left of jobs that were lost.
func (r *Runner) halt(ctx context.Context) (running int, err error) {
	all, err := r.shims.List(ctx)
	if err != nil {
		return 0, err
	}
	var sessions []runtime.Session
	var errs []error
	for _, o := range all {
		if o.Life == runtime.Dead && !o.Unrecorded {
			continue
		}
		if o.Life != runtime.Dead {
			running++
		}
		s, err := r.shims.Adopt(ctx, o.Path)
		switch {
		case err == nil:
			s.Stop()
			sessions = append(sessions, s)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("stopping job %s: %w", o.Path, err))
		}
	}
	grace := time.After(proc.DefaultGrace)
	for i := 0; i < len(sessions); {
		select {
		case <-sessions[i].Done():
			i++
		case <-grace:
			for _, s := range sessions[i:] {
				s.Kill()
			}
		case <-ctx.Done():
			return running, errors.Join(append(errs, ctx.Err())...)
		}
	}
	return running, errors.Join(errs...)
}

// HaltAll stops the running jobs that a killed daemon has left in a directory, and returns
// how many there were. It does not create the directory.
func HaltAll(ctx context.Context, o Options) (stopped int, err error) {
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	r, err := Open(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.halt(ctx)
}

// End halts and forgets all jobs, for a daemon that will not come back.
func (r *Runner) End(ctx context.Context) error {
	if _, err := r.halt(ctx); err != nil {
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
