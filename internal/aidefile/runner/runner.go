// Package runner makes one run of an agent with an Aidefile. A run is a program of its own,
// which the runtime of the agent starts and which outlives the daemon. It reads the Aidefile
// and the secrets, runs the hooks, and calls the command of the project until it succeeds or
// the budget is used up. Then it stores a summary, runs the last hooks, and exits with the code of
// its result (aidefile.Result). It restarts nothing.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/callfile"
	"github.com/coppice-dev/coppice/internal/aidefile"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Arg is the first argument with which a program calls Main with the rest.
const Arg = "aide-run"

// Names of files in the directory of a run.
const (
	summaryName = "summary.md" // of the last run
	promptName  = "prompt.md"
	usageName   = "usage"
)

// Main makes a run and returns its exit code.
func Main(args []string) int {
	dir := os.Getenv(proc.EnvFiles)
	if len(args) != 0 || dir == "" {
		fmt.Fprintln(os.Stderr, "coppice aide-run: started by coppice itself, not by people; see coppice fire --help")
		return 2
	}
	request, err := Read(filepath.Join(dir, RequestName))
	if err != nil {
		fmt.Fprintln(os.Stderr, "coppice aide-run:", err)
		return aidefile.Faulty.Code()
	}
	request.Aidefile = cmp.Or(os.Getenv(envAidefile), request.Aidefile)
	request.Settings.Vault = cmp.Or(os.Getenv(envVault), request.Settings.Vault)
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	go func() { cancel(&stopped{(<-signals).(syscall.Signal)}) }()
	r := New(request, dir, os.Environ(), os.Stdout, os.Stderr)
	r.Tell = func(status string) { sd.SdNotify(false, "STATUS="+status) }
	result := r.Run(ctx)
	if s, ok := errors.AsType[*stopped](context.Cause(ctx)); ok {
		return 128 + int(s.signal)
	}
	return result.Code()
}

// stopped is the cause of the end of a run that was asked to stop.
type stopped struct{ signal syscall.Signal }

func (s *stopped) Error() string { return "stopped" }

// Runner makes one run.
type Runner struct {
	// Tell is called with a line about the progress of the run.
	Tell func(string)

	request  RunRequest
	dir      string // of the request
	file     *aidefile.File
	env      map[string]string
	secrets  *secrets
	out, err *redactor
	meter    aidefile.Meter
	current  *call.Call // the last one; nil before the first
	tail     call.Tail  // of the output of current

	checkInterval time.Duration // between checks of the tokens that a call uses
	linger        time.Duration // of a command after it has reported its end
	hookTimeout   time.Duration

	records  *callfile.File
	sessions map[string]agentcli.Models // totals that were counted, by session
}

// New returns a Runner for a request whose files are in dir.
func New(q RunRequest, dir string, env []string, out, errs io.Writer) *Runner {
	r := &Runner{
		request: q, dir: dir, env: map[string]string{}, secrets: &secrets{}, checkInterval: 500 * time.Millisecond,
		linger: call.Linger, hookTimeout: hookTimeout, Tell: func(string) {},
		sessions: map[string]agentcli.Models{},
	}
	r.records = callfile.New(filepath.Join(dir, callfile.Name), q.Fired, r.secrets.redact)
	r.records.SetWork(q.Chain, q.Work())
	maps.Copy(r.sessions, q.Sessions)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", proc.EnvFiles, envVault: // for this program alone
		default:
			r.env[name] = value
		}
	}
	r.out, r.err = r.secrets.writer(out), r.secrets.writer(errs)
	return r
}

// Run makes the run.
func (r *Runner) Run(ctx context.Context) aidefile.Result {
	r.stored(r.records.Begin())
	result, reason := r.work(ctx)
	if isStopped(ctx) {
		return r.close(aidefile.Failed, "stopped")
	}
	if r.file == nil || r.current == nil && result == aidefile.Spent {
		return r.close(result, reason) // nothing was done
	}
	if last, ok := r.chainSpent(); ok && result != aidefile.Succeeded {
		result, reason = aidefile.Spent, fmt.Sprintf("%s; %s", reason, last)
	}
	summary := r.secrets.redact(aidefile.Summary(result, reason, &r.meter, r.answer(),
		r.file.Output.MaxSummaryTokens))
	if err := private.Replace(filepath.Join(r.dir, summaryName), []byte(summary+"\n")); err != nil {
		r.say("cannot store the summary: %v", err)
	}
	r.env["COPPICE_RESULT"], r.env["COPPICE_SUMMARY"] = result.String(), filepath.Join(r.dir, summaryName)
	r.env["COPPICE_REASON"] = reason
	if err := r.hooks(ctx, "on_complete", r.file.Hooks.OnComplete); err != nil {
		if r.say("%v", err); result == aidefile.Succeeded {
			result, reason = aidefile.Failed, err.Error()
		}
	}
	if result == aidefile.Succeeded && r.request.Issue > 0 {
		if err := r.closeIssue(ctx); err != nil {
			reason = fmt.Sprintf("done, but issue %d could not be closed: %v", r.request.Issue, err)
		}
	}
	fmt.Fprintln(r.out, summary)
	if isStopped(ctx) {
		return r.close(aidefile.Failed, "stopped")
	}
	return r.close(result, reason)
}

func isStopped(ctx context.Context) bool {
	_, ok := errors.AsType[*stopped](context.Cause(ctx))
	return ok
}

// close reports the result of the run.
func (r *Runner) close(result aidefile.Result, reason string) aidefile.Result {
	text := result.String()
	if reason != "" {
		text += ": " + reason
	}
	if r.meter.Used() > 0 || r.meter.Unknown() {
		text += fmt.Sprintf(" (%s tokens)", r.meter.UsedText())
	}
	r.say("%s", text)
	r.out.flush()
	r.err.flush()
	r.Tell(plaintext.Line(strings.ReplaceAll(r.secrets.redact(text), "\n", " ")))
	return result
}

// say writes a line of the run to its standard error.
func (r *Runner) say(format string, args ...any) {
	fmt.Fprintf(r.err, "aide: %s\n", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// work makes the run, without its summary and report.
func (r *Runner) work(ctx context.Context) (aidefile.Result, string) {
	file, err := aidefileconfig.Load(r.request.Aidefile)
	if err != nil {
		return aidefile.Faulty, err.Error()
	}
	r.file = file
	budget, err := file.Budget.Within(r.request.Spent)
	if r.meter = (aidefile.Meter{Budget: budget}); err != nil {
		return aidefile.Spent, err.Error()
	}
	if err := r.secrets.find(file.Vault, r.request.Settings.Vault, r.env); err != nil {
		return aidefile.Faulty, err.Error()
	}
	r.describe()
	if t := file.Budget.Timeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, &timedOut{t})
		defer cancel()
	}
	r.Tell("on_spawn")
	if err := r.hooks(ctx, "on_spawn", file.Hooks.OnSpawn); err != nil {
		return resultOf(err, aidefile.Faulty), err.Error()
	}
	var last *try
	for {
		if err := r.meter.Call(); err != nil {
			return r.exhausted(err, last)
		}
		if last != nil {
			if err := r.pause(ctx, last); err != nil {
				return resultOf(err, aidefile.Failed), err.Error()
			}
		}
		r.Tell(fmt.Sprintf("try %d of %d, %s tokens left", r.meter.Calls(), file.Budget.MaxRetries+1,
			r.meter.LeftText()))
		err := r.call(ctx, last)
		if err == nil {
			return aidefile.Succeeded, ""
		}
		if ctx.Err() != nil {
			return resultOf(err, aidefile.Failed), err.Error()
		}
		if _, exhausted := errors.AsType[*aidefile.Exhausted](err); exhausted {
			return aidefile.BudgetExhausted, err.Error()
		}
		if errors.Is(err, proc.ErrCommand) || errors.Is(err, errArguments) {
			return aidefile.Faulty, err.Error()
		}
		if f, ok := errors.AsType[*callFailed](err); ok && !f.again() {
			return f.result(), err.Error()
		}
		r.say("try %d: %v", r.meter.Calls(), err)
		last = r.failedTry(err, last)
	}
}

// pause waits before the next try. It returns an error if the run ends meanwhile.
func (r *Runner) pause(ctx context.Context, last *try) error {
	// The try that was counted last has not begun.
	d := pauseAfter(r.meter.Calls()-2, last.record.Obstacle, r.request.Settings.Base, r.file.Policy)
	r.Tell(fmt.Sprintf("try %d of %d begins in %v", r.meter.Calls(), r.file.Budget.MaxRetries+1, d))
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exhausted returns the result of a run whose budget is used up.
func (r *Runner) exhausted(err error, last *try) (aidefile.Result, string) {
	switch {
	case last == nil:
		return aidefile.BudgetExhausted, err.Error()
	case r.file.Budget.MaxRetries == 0 && r.meter.Left() > 0: // there was one attempt
		return aidefile.Failed, last.err.Error()
	}
	return aidefile.BudgetExhausted, fmt.Sprintf("%v; the last: %v", err, last.err)
}

// timedOut is the cause of the end of a run that takes too long.
type timedOut struct{ after time.Duration }

func (t *timedOut) Error() string { return fmt.Sprintf("it has not ended within %v", t.after) }

// resultOf returns the result of a run that ends with an error.
func resultOf(err error, otherwise aidefile.Result) aidefile.Result {
	if _, ok := errors.AsType[*timedOut](err); ok {
		return aidefile.TimedOut
	}
	return otherwise
}
