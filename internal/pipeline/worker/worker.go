// Package worker makes one attempt at a task of a pipeline. It is a program of its own, which the runtime of the agent
// starts, and which outlives the daemon. It claims a task, takes it through the stages in a git worktree, reports the
// outcome, and ends; its supervisor starts it again for the next task. When it is killed the daemon writes the outcome.
package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/outcome/claim"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/task"
)

// Arg is the first argument with which a program calls Main with the rest.
const Arg = "pipeline-worker"

// Argv returns the command of an incarnation: the program exe with the directory of the agent's files.
func Argv(exe, dir string) []string { return []string{exe, Arg, dir} }

// Exit codes of a worker. A worker that was asked to stop exits with 128 and the number of the signal.
const (
	ExitDone    = 0  // its outcome is reported, or there is nothing to do
	ExitFailure = 1  // it cannot work
	ExitAccount = 75 // the account of the model does not serve it now; EX_TEMPFAIL
)

// patience bounds the wait for a daemon: a worker does not give up.
const patience = 365 * 24 * time.Hour

// Main makes an attempt and returns its exit code.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "coppice "+Arg+": started by coppice itself, not by people; see docs/pipeline.md")
		return 2
	}
	// Commands of stages belong to the same user.
	if err := hideEnviron(); err != nil {
		fmt.Fprintln(os.Stderr, "coppice "+Arg+": cannot hide its environment:", err)
		return ExitFailure
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	go func() { cancel(&stopped{(<-signals).(syscall.Signal)}) }()
	client := api.DialAgent(os.Getenv(proc.EnvSocket), os.Getenv(proc.EnvToken))
	defer client.Close()
	incarnation, _ := strconv.ParseUint(os.Getenv(proc.EnvIncarnation), 10, 64) // coppice has written it
	w := &worker{
		client: client, dir: args[0], incarnation: incarnation, env: stageEnviron(os.Environ()), out: os.Stdout,
		errs: os.Stderr,
		tell: func(status string) { sd.SdNotify(false, "STATUS="+plaintext.OneLine(status, 200)) },
		calls: callfile.New(filepath.Join(args[0], callfile.Name), time.Time{},
			func(text string) string { return text }),
	}
	err := w.run(ctx)
	if s, ok := errors.AsType[*stopped](context.Cause(ctx)); ok {
		return 128 + int(s.signal)
	}
	var account *accountError
	switch {
	case errors.As(err, &account):
		w.say("%v", err)
		return ExitAccount
	case err != nil:
		w.say("%v", err)
		return ExitFailure
	}
	return ExitDone
}

// stopped is the cause of the end of a worker that was asked to stop.
type stopped struct{ signal syscall.Signal }

func (s *stopped) Error() string { return "stopped" }

// accountError is the reason to end an attempt whose account does not serve it. The daemon knows what follows.
type accountError struct{ text string }

func (e *accountError) Error() string { return e.text }

// worker makes one attempt.
type worker struct {
	client      *api.Client
	dir         string // of the files of the agent
	incarnation uint64
	env         []string // of stages
	out, errs   io.Writer
	tell        func(status string)
	calls       *callfile.File
}

// announce says how far the attempt has come: as data, and as a line.
func (w *worker) announce(p progress.Progress) {
	w.tell(p.String())
	if err := progress.Write(w.dir, p); err != nil {
		w.say("cannot say how far the attempt has come: %v", err)
	}
}

// say writes a line of the worker to its standard error.
func (w *worker) say(format string, args ...any) {
	fmt.Fprintf(w.errs, "pipeline: %s\n", plaintext.OneLine(fmt.Sprintf(format, args...), 2000))
}

// reach calls do until a daemon answers.
func (w *worker) reach(ctx context.Context, do func(context.Context) error) error {
	return api.Retry(ctx, patience, func() error { return do(ctx) })
}

// run claims a task, attempts it and reports the outcome.
func (w *worker) run(ctx context.Context) error {
	w.tell("waits for a task")
	claimed, err := w.claim(ctx)
	if err != nil || claimed == nil {
		return err
	}
	var d task.Detail
	var mine Assignment
	err = w.reach(ctx, func(ctx context.Context) (err error) {
		if d, err = task.Show.Call(ctx, w.client, task.ShowRequest{ID: claimed.ID}); err == nil {
			mine, err = Mine.Call(ctx, w.client, api.None{})
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := w.calls.Begin(); err != nil {
		return err
	}
	report, err := w.attempt(ctx, d, mine)
	if err != nil {
		return err
	}
	return w.report(ctx, d.Task, report)
}

// claim waits for a task of the worker's pools and claims it. It returns nil if the worker is asked to finish.
func (w *worker) claim(ctx context.Context) (*task.Task, error) {
	key := rand.Text()
	var got []task.Task
	err := w.reach(ctx, func(ctx context.Context) (err error) {
		got, err = task.Await.Call(ctx, w.client, task.WaitRequest{Key: key})
		return err
	})
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return &got[0], nil
}

// report reports the outcome of the attempt at a task. The daemon may be killed after it has stored the outcome and
// before its answer arrives: then the attempt has ended, and is not reported again.
func (w *worker) report(ctx context.Context, t task.Task, r outcome.Report) error {
	if _, err := outcome.New(r); err != nil {
		return fmt.Errorf("the outcome of %s cannot be reported: %w", t.ID, err)
	}
	w.say("%s: %s", t.ID, r)
	first := true
	return w.reach(ctx, func(ctx context.Context) error {
		if !first {
			ended, err := w.hasEnded(ctx, t)
			if err != nil || ended {
				return err
			}
		}
		first = false
		_, err := claim.Report.Call(ctx, w.client, claim.Request{Report: r, Task: t.ID})
		return err
	})
}

// hasEnded reports whether the attempt that the worker makes at a task has ended.
func (w *worker) hasEnded(ctx context.Context, t task.Task) (bool, error) {
	d, err := task.Show.Call(ctx, w.client, task.ShowRequest{ID: t.ID})
	if err != nil {
		return false, err
	}
	for _, a := range d.Attempts {
		if a.Number == t.Claims {
			return true, nil
		}
	}
	return false, nil
}

// stageEnviron returns the environment of stages: that of the worker, without what lets a process act as the agent or
// speak for this process.
func stageEnviron(env []string) []string {
	var kept []string
	for _, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case proc.EnvToken, "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC":
		default:
			kept = append(kept, kv)
		}
	}
	return kept
}
