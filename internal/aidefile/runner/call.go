package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/call"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// maxArgument is the size limit of Linux for an argument or variable, without its final 0.
const maxArgument = 128<<10 - 1

var errArguments = errors.New("the command cannot be called")

// call calls the command once, and counts the tokens that it has used. last is the try before; nil if there is none.
func (r *Runner) call(ctx context.Context, last *try) error {
	usage := filepath.Join(r.dir, usageName)
	if err := os.Remove(usage); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	q, err := r.command(last)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, promptName)
	if err := private.Replace(path, []byte(q.prompt)); err != nil {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	r.env["COPPICE_TRY"], r.env["COPPICE_TOKENS"] = fmt.Sprint(r.meter.Calls()), fmt.Sprint(r.meter.Left())
	r.env["COPPICE_USAGE"], r.env["COPPICE_PROMPT"] = usage, path
	began := time.Now()
	r.tail.Reset()
	r.current = call.New(r.request.Settings.Command, session.Call{CLI: r.request.Settings.CommandLine(),
		Env: r.environ(), Dir: filepath.Dir(r.request.Aidefile), Began: began, Session: q.session})
	exit, err := r.ask(ctx, q, r.current)
	r.current.Finish()
	if errors.Is(err, proc.ErrCommand) || errors.Is(err, errArguments) {
		return err // it has not run
	}
	stopped := call.StopOf(err)
	if err != nil && stopped == agentcli.NotStopped { // it could not be started
		stopped = agentcli.ByOperator
	}
	end := r.current.Exited(exit, stopped)
	record := end.Record()
	record.Began, record.Ended = began, time.Now()
	r.meter.Record(r.count(&record), record.Tokens != nil)
	if id := record.Session; id != "" {
		_, r.sessions[id] = record.Count(r.sessions[id])
	}
	r.stored(r.records.Add(record, r.meter.Used()))
	switch {
	case err != nil && stopped != agentcli.AfterItsEnd && stopped != agentcli.Silent:
		return err
	case record.Kind != outcome.Completed:
		return &callFailed{record.Verdict, end.Exit}
	}
	return nil
}

// callFailed is the error of a call that has not completed its work.
type callFailed struct {
	agentcli.Verdict
	exit string // how its process has ended; empty for an exit code of 0
}

func (e *callFailed) Error() string {
	switch {
	case e.Reason == e.exit:
		return e.exit
	case e.exit == "":
		return "it ended with 0, and has failed: " + e.Text()
	}
	return e.Text()
}

// again reports whether another call soon may end better.
func (e *callFailed) again() bool { return e.Kind == outcome.Retryable }

// result returns the result of a run that ends with it.
func (e *callFailed) result() aidefile.Result {
	if e.OfAccount() {
		return aidefile.Deferred
	}
	return aidefile.Failed
}

// used returns what the current call has used so far.
func (r *Runner) used() int64 {
	record := r.current.Counts()
	return r.count(&record)
}

// check returns an error if the current call has used more tokens than were left. It stores what is known of the call.
func (r *Runner) check() error {
	used := r.used()
	total := agentcli.Add(r.meter.Used(), used)
	r.stored(r.records.Note(total, func() (agentcli.Record, *agentcli.Record) {
		record, refused := r.current.Interrupted()
		r.count(&record)
		return record, refused
	}))
	if used > r.meter.Left() {
		return aidefile.Overspent(total, r.meter.Tokens)
	}
	return nil
}

// count sets in the record of a call what it has used: as the project says, from the usage file, or else from what the
// command line has reported on its output and in the file of its session. It returns what counts of it: of a total of
// a session, what was not counted before.
func (r *Runner) count(record *agentcli.Record) int64 {
	source := r.request.Settings.Usage
	if source == aidefile.FromFile || source == aidefile.FromNowhere {
		record.DropUsage()
	}
	if source == aidefile.FromFile || source == aidefile.AnySource {
		if text, err := readUsage(filepath.Join(r.dir, usageName)); err == nil {
			if n, ok := agentcli.ReadUsage(text); ok {
				record.SetUsage(agentcli.Models{"": {Input: n}}, agentcli.FromFile)
			}
		}
	}
	counts, _ := record.Count(r.sessions[record.Session])
	return counts.Total().Tokens()
}

func readUsage(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errArguments
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

// ask runs the command of a call to its end, and ends it with ctx. The call is followed, and ended when it has used
// more tokens than are left.
func (r *Runner) ask(ctx context.Context, q question, c *call.Call) (supervisor.Exit, error) {
	if r.request.Settings.CommandLine() != agentcli.ACP {
		in, err := os.Open(filepath.Join(r.dir, promptName))
		if err != nil {
			return supervisor.Exit{}, fmt.Errorf("%w: %w", errArguments, err)
		}
		defer in.Close()
		return call.Run(ctx, r.program(q.argv, in, c, io.MultiWriter(r.out, &r.tail)))
	}
	t, err := r.talk(q, c)
	if err != nil {
		return supervisor.Exit{}, err
	}
	defer t.close()
	p := r.program(q.argv, t.stdin, c, t.output)
	p.Talk = t
	return call.Run(ctx, p)
}

// program returns the program of a call, or of a hook if c is nil. out gets its standard output.
func (r *Runner) program(argv []string, stdin *os.File, c *call.Call, out io.Writer) call.Program {
	return call.Program{
		Command: proc.Command{Argv: argv, Dir: filepath.Dir(r.request.Aidefile), Env: r.environ(), Stdin: stdin},
		Output: func(s proc.Stream, data []byte) {
			if s == proc.Stderr {
				r.err.Write(data)
			} else {
				out.Write(data)
			}
		},
		Call: c, Check: r.check, Interval: r.checkInterval, Linger: r.linger,
		Silence: cmp.Or(r.file.Budget.Silence, aidefile.DefaultSilence),
	}
}

// environ returns the environment of commands and hooks.
func (r *Runner) environ() []string {
	all := maps.Clone(r.env)
	maps.Copy(all, r.secrets.byName)
	env := make([]string, 0, len(all))
	for name, value := range all {
		if kv := name + "=" + value; len(kv) <= maxArgument && !strings.ContainsRune(kv, 0) {
			env = append(env, kv)
		}
	}
	slices.Sort(env)
	return env
}

// question has the command of a call and its prompt.
type question struct {
	argv   []string
	prompt string
	// session is continued; if it is empty, a new one begins.
	session string
	// goOn is the prompt in that session of an agent that speaks the Agent Client Protocol: the agent says later
	// whether it can continue a session.
	goOn string
}

// command returns what the next call asks: the whole task, or a few words in the session of the last try.
func (r *Runner) command(last *try) (q question, err error) {
	q.session = last.session()
	acp := r.request.Settings.CommandLine() == agentcli.ACP
	if q.session != "" {
		goOn := r.goOn(last)
		if acp {
			q.goOn = goOn
		} else if argv, err := r.arguments(goOn, goOn); err == nil {
			if argv, ok := agentcli.Continue(agentcli.Detect(argv), argv, q.session); ok {
				return question{argv: argv, prompt: goOn, session: q.session}, nil
			}
		}
	}
	if !acp {
		q.session = ""
	}
	q.prompt = r.prompt(last)
	q.argv, err = r.arguments(q.prompt, r.request.Task)
	return q, err
}

// arguments returns the command with its placeholders replaced.
func (r *Runner) arguments(prompt, task string) ([]string, error) {
	argv, err := r.request.Settings.Arguments(r.values(prompt, task))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArguments, err)
	}
	for i, word := range argv {
		if len(word) > maxArgument {
			return nil, fmt.Errorf("%w: its argument %d has %d bytes, expected at most %d; the task is on its "+
				"standard input, too", errArguments, i, len(word), maxArgument)
		}
	}
	return argv, nil
}
