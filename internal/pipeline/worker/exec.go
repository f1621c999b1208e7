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
	"github.com/coppice-dev/coppice/internal/spanid"
	"github.com/coppice-dev/coppice/internal/worktree"
	"github.com/coppice-dev/coppice/supervisor"
)

// caller runs the commands of stages.
type caller struct {
	*job
	site *site

	spent [pipeline.NumStages]int64 // tokens
	used  int64                     // tokens of all calls
}

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
func (c *caller) call(ctx context.Context, n pipeline.Name, s pipeline.Stage, prompt string) (result, error) {
	for again := s.Retries; ; again-- {
		if s.Tokens > 0 && c.spent[n] >= s.Tokens {
			v := agentcli.Verdict{Kind: outcome.Escalated, Obstacle: outcome.Budget,
				Reason: (&tokensError{c.spent[n], s.Tokens}).Error()}
			return result{}, attempt.Called(n, "", v)
		}
		got, err := c.execute(ctx, n, s, c.site.tree, prompt)
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
		c.say("%s: %s; it is called again", n, got.failed.Text())
		if err := c.pause(ctx, s.Retries-again); err != nil {
			return got, err
		}
	}
}

// pause waits before another call in the same attempt.
func (c *caller) pause(ctx context.Context, n int) error {
	b := supervisor.Backoff{Kind: supervisor.Exponential, Base: 2 * time.Second, Cap: time.Minute}
	select {
	case <-time.After(b.Delay(n)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// execute runs the command of a stage in a worktree to its end. An error means that it could not run, or that the
// worker is stopped.
func (c *caller) execute(
	ctx context.Context, n pipeline.Name, s pipeline.Stage, at *worktree.Worktree, input string,
) (result, error) {
	return c.executeTo(ctx, n, s, at, input, io.Discard)
}

// executeTo executes, and writes all of the standard output to stdout, too.
func (c *caller) executeTo(
	ctx context.Context, n pipeline.Name, s pipeline.Stage, at *worktree.Worktree, input string, stdout io.Writer,
) (got result, err error) {
	stdin, err := c.input(input)
	if err != nil {
		return got, err
	}
	defer stdin.Close()
	cli, env, began := s.CommandLine(), c.environ(n, at), time.Now()
	made := call.New(s.Command, session.Call{CLI: cli, Env: env, Dir: at.Path, Began: began})
	var text, output call.Tail
	out := func(stream proc.Stream, data []byte) {
		output.Write(data)
		if stream == proc.Stderr {
			c.errs.Write(data)
			return
		}
		text.Write(data)
		stdout.Write(data)
		c.out.Write(data)
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.Timeout, &timeoutError{s.Timeout})
	defer cancel()
	exit, why := call.Run(limited, call.Program{
		Command: proc.Command{Argv: s.Command, Dir: at.Path, Env: env, Stdin: stdin, Paths: c.paths(n, s, at.Path)},
		Output:  out, Call: made, Silence: aidefile.DefaultSilence,
		Check: func() error { return c.over(n, s, made) },
	})
	made.Finish()
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
	record := made.Exited(exit, call.StopOf(why)).Record()
	record.Began, record.Ended = began, time.Now()
	used := tokensOf(record)
	c.spent[n], c.used = agentcli.Add(c.spent[n], used), agentcli.Add(c.used, used)
	if answered := cmp.Or(made.Report().Text, made.Report().Said); answered != "" {
		got.text = answered
	}
	if got.model = record.Model; record.Kind != outcome.Completed {
		got.failed = &record.Verdict
	}
	return got, c.calls.Add(record, c.used)
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
func (c *caller) over(n pipeline.Name, s pipeline.Stage, made *call.Call) error {
	if s.CommandLine() == agentcli.Plain {
		return nil
	}
	now := tokensOf(made.Counts())
	err := c.calls.Note(agentcli.Add(c.used, now), made.Interrupted)
	if err != nil {
		c.say("%v", err)
	}
	if used := agentcli.Add(c.spent[n], now); s.Tokens > 0 && used > s.Tokens {
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
func (c *caller) input(text string) (*os.File, error) {
	if text == "" {
		return os.Open(os.DevNull)
	}
	path := filepath.Join(c.dir, "input")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// environ returns the environment of the command of a stage in a worktree.
func (c *caller) environ(n pipeline.Name, at *worktree.Worktree) []string {
	t := c.facts.Task.Task
	set := map[string]string{
		"COPPICE_STAGE": n.String(), "COPPICE_TASK": t.ID, "COPPICE_ATTEMPT": fmt.Sprint(c.facts.Number),
		"COPPICE_MODE": string(c.facts.Rules.Kind), "TMPDIR": c.temporary(),
		"XDG_CACHE_HOME": c.cache(),
	}
	if parent := c.span(); parent != "" {
		set[spanid.Variable] = parent
	}
	if c.site.tree != nil {
		set["COPPICE_BASE"] = c.site.tree.Commit
	}
	if len(at.Ports) > 0 {
		set["COPPICE_PORT"] = fmt.Sprint(at.Ports[0])
		set["COPPICE_PORTS"] = strings.Trim(fmt.Sprint(at.Ports), "[]")
	}
	env := slices.DeleteFunc(slices.Clone(c.env), func(kv string) bool {
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

// span returns the traceparent of the attempt; empty if the worker has none of the daemon, whose spans have those of
// attempts below them.
func (c *caller) span() string {
	for _, kv := range c.env {
		if text, ok := strings.CutPrefix(kv, spanid.Variable+"="); ok {
			if id, ok := spanid.Parse(text); ok && id.IsRoot() {
				return id.Attempt(c.facts.Task.Task.ID, c.facts.Number).Traceparent()
			}
		}
	}
	return ""
}

// paths returns where the command of a stage may write: its directories for temporary files and caches, what its
// command line and the file need, and the worktree, unless it plans, reviews or only answers. Nil means anywhere, where
// the kernel cannot enforce it.
func (c *caller) paths(n pipeline.Name, s pipeline.Stage, dir string) *landlock.Paths {
	if landlock.Supported() != nil && c.settings.Writable == nil {
		return nil
	}
	home, _ := os.UserHomeDir()
	writable := []string{c.temporary(), c.cache()}
	if s.WritesTree(n) {
		writable = append(writable, dir)
	}
	for _, name := range pipeline.Homes(s.CommandLine()) {
		writable = append(writable, "-"+filepath.Join(home, name))
	}
	for _, kv := range c.env { // the account may be in another place
		name, dir, _ := strings.Cut(kv, "=")
		if slices.Contains(homeVariables(), name) && filepath.IsAbs(dir) {
			writable = append(writable, "-"+dir)
		}
	}
	return landlock.New(append(writable, c.settings.Writable...), c.settings.ReadOnly).WithOwnSignals(true)
}

// homeVariables returns the variables that move what pipeline.Homes returns.
func homeVariables() []string {
	return []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"}
}

// setUp runs the set-up command of a worktree.
type setUp struct{ caller *caller }

var errSetUp = errors.New("the set-up command has failed")

// Run implements worktree.Runner.
func (u setUp) Run(ctx context.Context, t worktree.Worktree, argv []string) error {
	stage := pipeline.Stage{Command: argv, Timeout: pipeline.DefaultTimeout}
	got, err := u.caller.execute(ctx, pipeline.Implement, stage, &t, "")
	if err != nil {
		return err
	}
	if got.failed != nil {
		return fmt.Errorf("%w: %s: %s", errSetUp, got.failed.Reason, attempt.Tail(got.output, 2000))
	}
	return nil
}

// makeDirs makes the directories that stages may write to. Temporary files of the attempt before are removed.
func (w *worker) makeDirs() error {
	if err := os.RemoveAll(w.temporary()); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(w.temporary(), 0o700), os.MkdirAll(w.cache(), 0o700))
}

func (w *worker) temporary() string { return filepath.Join(w.dir, "tmp") }
func (w *worker) cache() string     { return filepath.Join(w.dir, "cache") }
