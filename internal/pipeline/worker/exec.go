package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// maxOutput bounds the end of the output of a command that is kept, in bytes.
const maxOutput = 32 << 10

// result is the end of a command.
type result struct {
	text   string            // the answer of a model, or standard output
	output string            // the end of all output
	model  string            // that was called; empty if that is not known
	failed *agentcli.Verdict // nil if it has ended well
}

// call runs the command of a stage that calls a model. A failure that may pass is tried again.
func (a *run) call(ctx context.Context, n pipeline.Name, s pipeline.Stage, prompt string) (result, error) {
	for again := s.Retries; ; again-- {
		if s.Tokens > 0 && a.spent[n] >= s.Tokens {
			v := agentcli.Verdict{Kind: outcome.Escalated, Obstacle: outcome.Budget,
				Reason: (&tokensError{a.spent[n], s.Tokens}).Error()}
			return result{}, attempt.Called(n, "", v)
		}
		got, err := a.execute(ctx, n, s, a.tree.Path, prompt)
		switch {
		case err != nil:
			return got, err
		case got.failed == nil:
			return got, nil
		case got.failed.OfAccount():
			return got, &accountError{got.failed.Text()}
		case again <= 0 || got.failed.Kind != outcome.Retryable:
			return got, attempt.Called(n, got.model, *got.failed)
		}
		a.say("%s: %s; it is called again", n, got.failed.Text())
		if err := a.pause(ctx, s.Retries-again); err != nil {
			return got, err
		}
	}
}

// pause waits before another call in the same attempt.
func (a *run) pause(ctx context.Context, n int) error {
	b := supervisor.Backoff{Kind: supervisor.Exponential, Base: 2 * time.Second, Cap: time.Minute}
	select {
	case <-time.After(b.Delay(n)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// execute runs the command of a stage to its end. An error means that it could not run, or that the worker is stopped.
func (a *run) execute(ctx context.Context, n pipeline.Name, s pipeline.Stage, dir, input string) (result, error) {
	return a.executeTo(ctx, n, s, dir, input, io.Discard)
}

// executeTo executes, and writes all of the standard output to stdout, too.
func (a *run) executeTo(
	ctx context.Context, n pipeline.Name, s pipeline.Stage, dir, input string, stdout io.Writer,
) (got result, err error) {
	stdin, err := a.input(input)
	if err != nil {
		return got, err
	}
	defer stdin.Close()
	cli, env, began := s.CommandLine(), a.environ(n), time.Now()
	c := call.New(s.Command, session.Call{CLI: cli, Env: env, Dir: dir, Began: began})
	var text, output call.Tail
	out := func(stream proc.Stream, data []byte) {
		output.Write(data)
		if stream == proc.Stderr {
			a.errs.Write(data)
			return
		}
		text.Write(data)
		stdout.Write(data)
		a.out.Write(data)
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.Timeout, &timeoutError{s.Timeout})
	defer cancel()
	exit, why := call.Run(limited, call.Program{
		Command: proc.Command{Argv: s.Command, Dir: dir, Env: env, Stdin: stdin, Paths: a.paths(n, s, dir)},
		Output:  out, Call: c, Silence: aidefile.DefaultSilence,
		Check: func() error { return a.over(n, s, c) },
	})
	c.Finish()
	if ctx.Err() != nil {
		return got, context.Cause(ctx)
	}
	var stopped *call.StoppedError
	if why != nil && !errors.As(why, &stopped) { // it has not run
		question := fmt.Sprintf("The command of the stage %s cannot run: %v", n, why)
		return got, attempt.Escalate(n, outcome.Configuration, question, "%v", why)
	}
	got.text, got.output = text.String(), attempt.Tail(output.String(), maxOutput)
	if cli == agentcli.Plain {
		got.failed = failureOf(exit, why)
		return got, nil
	}
	record := c.Exited(exit, call.StopOf(why)).Record()
	record.Began, record.Ended = began, time.Now()
	used := tokensOf(record)
	a.spent[n], a.used = agentcli.Add(a.spent[n], used), agentcli.Add(a.used, used)
	if answered := cmp.Or(c.Report().Text, c.Report().Said); answered != "" {
		got.text = answered
	}
	if got.model = record.Model; record.Kind != outcome.Completed {
		got.failed = &record.Verdict
	}
	return got, a.calls.Add(record, a.used)
}

// failureOf says how a command that calls no model has failed; nil if it has not.
func failureOf(exit supervisor.Exit, why error) *agentcli.Verdict {
	v := &agentcli.Verdict{Kind: outcome.Retryable, Obstacle: outcome.VerificationFailed}
	switch {
	case why != nil:
		v.Obstacle, v.Reason = outcome.Timeout, why.Error()
	case exit.Kind == supervisor.Killed: // from outside, such as for want of memory: that is no answer
		v.Obstacle, v.Reason = outcome.Crash, exit.String()
	case exit.Kind != supervisor.Normal:
		v.Reason = exit.String()
	default:
		return nil
	}
	return v
}

// over returns why a call has to end now: the tokens of its stage are used up. It also keeps what it has used so far.
func (a *run) over(n pipeline.Name, s pipeline.Stage, c *call.Call) error {
	if s.CommandLine() == agentcli.Plain {
		return nil
	}
	now := tokensOf(c.Counts())
	err := a.calls.Note(agentcli.Add(a.used, now), c.Interrupted)
	if err != nil {
		a.say("%v", err)
	}
	if used := agentcli.Add(a.spent[n], now); s.Tokens > 0 && used > s.Tokens {
		return &tokensError{used, s.Tokens}
	}
	return nil
}

// tokensOf returns the tokens that count of a call.
func tokensOf(r agentcli.Record) int64 {
	counts, _ := r.Count(nil)
	return counts.Total().Tokens()
}

// timeoutError is the cause of the end of a command that takes too long.
type timeoutError struct{ after time.Duration }

func (t *timeoutError) Error() string { return fmt.Sprintf("it has not ended within %v", t.after) }

// tokensError is the reason to end a call.
type tokensError struct{ used, of int64 }

func (t *tokensError) Error() string { return fmt.Sprintf("%d of %d tokens are used", t.used, t.of) }

// input returns a file with the standard input of a command.
func (a *run) input(text string) (*os.File, error) {
	if text == "" {
		return os.Open(os.DevNull)
	}
	path := filepath.Join(a.dir, "input")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// environ returns the environment of the command of a stage.
func (a *run) environ(n pipeline.Name) []string {
	t := a.facts.Task.Task
	set := map[string]string{
		"COPPICE_STAGE": n.String(), "COPPICE_TASK": t.ID, "COPPICE_ATTEMPT": fmt.Sprint(a.facts.Number),
		"COPPICE_MODE": string(a.facts.Rules.Kind), "TMPDIR": a.temporary(),
		"XDG_CACHE_HOME": a.cache(),
	}
	if a.tree != nil {
		set["COPPICE_BASE"] = a.tree.Commit
	}
	if len(a.ports) > 0 {
		set["COPPICE_PORT"] = fmt.Sprint(a.ports[0])
		set["COPPICE_PORTS"] = strings.Trim(fmt.Sprint(a.ports), "[]")
	}
	env := slices.DeleteFunc(slices.Clone(a.env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := set[name]
		return ours && name != "XDG_CACHE_HOME"
	})
	if slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "XDG_CACHE_HOME=") }) {
		delete(set, "XDG_CACHE_HOME")
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

// paths returns where the command of a stage may write: its directories for temporary files and caches, what its
// command line and the file need, and the worktree, unless it plans, reviews or only answers. Nil means anywhere, where
// the kernel cannot enforce it.
func (a *run) paths(n pipeline.Name, s pipeline.Stage, dir string) *landlock.Paths {
	if landlock.Supported() != nil && a.settings.Writable == nil {
		return nil
	}
	home, _ := os.UserHomeDir()
	writable := []string{a.temporary(), a.cache()}
	if s.WritesTree(n) {
		writable = append(writable, dir)
	}
	for _, name := range pipeline.Homes(s.CommandLine()) {
		writable = append(writable, "-"+filepath.Join(home, name))
	}
	for _, kv := range a.env { // the account may be in another place
		name, dir, _ := strings.Cut(kv, "=")
		if slices.Contains(homeVariables(), name) && filepath.IsAbs(dir) {
			writable = append(writable, "-"+dir)
		}
	}
	return landlock.New(append(writable, a.settings.Writable...), a.settings.ReadOnly).WithOwnSignals(true)
}

// homeVariables returns the variables that move what pipeline.Homes returns.
func homeVariables() []string {
	return []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"}
}
