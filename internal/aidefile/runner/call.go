package runner

import (
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
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// grace is how long what has to end may take before it is killed: less than
// that of the run itself, which ends it.
const grace = 3 * time.Second

// maxArgument is what Linux takes as one argument or variable, less its end.
const maxArgument = 128<<10 - 1

var errArguments = errors.New("the command cannot be called")

// call calls the command once, and counts what it has used.
func (r *Runner) call(ctx context.Context, last error) error {
	usage := filepath.Join(r.dir, usageName)
	if err := os.Remove(usage); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	prompt := r.prompt(last)
	path := filepath.Join(r.dir, promptName)
	if err := replace(path, []byte(prompt)); err != nil {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	defer in.Close()
	argv, err := r.arguments(prompt)
	if err != nil {
		return err
	}
	r.env["COPPICE_TRY"], r.env["COPPICE_TOKENS"], r.env["COPPICE_USAGE"], r.env["COPPICE_PROMPT"] = fmt.Sprint(
		r.meter.Calls()), fmt.Sprint(r.meter.Left()), usage, path
	r.heard = new(hearing)
	exit, err := r.execute(ctx, argv, in, r.heard)
	r.heard.close()
	report := r.used()
	r.meter.Record(report.Tokens)
	r.settle(0)
	switch {
	case err != nil:
		return err
	case exit.Kind != supervisor.Normal:
		return errors.New(exit.String())
	case report.Failed:
		return fmt.Errorf("it ended with 0, and says that it has failed: %.300s", report.Text)
	}
	return nil
}

// used is what the call that is being made has said of itself.
func (r *Runner) used() agentcli.Report {
	out := r.heard.report()
	source := r.request.Settings.Usage
	if source == aidefile.FromNowhere {
		return agentcli.Report{}
	}
	if source == aidefile.FromOutput {
		return out
	}
	var file agentcli.Report
	if text, err := readUsage(filepath.Join(r.dir, usageName)); err == nil {
		file = agentcli.ReadUsage(text)
	}
	if file.Known || source == aidefile.FromFile {
		out.Tokens, out.Known, out.Ended = file.Tokens, file.Known, false
	}
	return out
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

// execute runs a program to its end, and ends it when ctx does. h hears what it
// prints, and may be nil; if it is not, it is a call, which ends when it has
// used more than is left.
func (r *Runner) execute(ctx context.Context, argv []string, in *os.File, h *hearing) (supervisor.Exit, error) {
	if ctx.Err() != nil {
		return supervisor.Exit{}, context.Cause(ctx)
	}
	out := proc.Output{Tail: -1, Raw: func(s proc.Stream, data []byte) {
		if s == proc.Stderr {
			r.err.Write(data)
			return
		}
		r.out.Write(data)
		if h != nil {
			h.Write(data)
		}
	}}
	p, err := proc.Start(proc.Command{Argv: argv, Dir: filepath.Dir(r.request.Aidefile), Env: r.environ(), Stdin: in},
		out)
	if err != nil {
		return supervisor.Exit{}, err
	}
	look := time.NewTicker(r.look)
	defer look.Stop()
	var why error
	for running, over := true, false; running; {
		select {
		case <-p.Done():
			running = false
		case <-ctx.Done():
			why, running = context.Cause(ctx), false
		case <-look.C:
			if h == nil {
				continue
			}
			// One that is about to end by itself has the time of a look to do so:
			// then it is what it says that counts.
			was := over
			if over = r.overspent(); over && was {
				why, running = aidefile.Overspent(agentcli.Add(r.meter.Used(), r.used().Tokens), r.meter.Tokens), false
			}
		}
	}
	if why != nil {
		p.End(grace)
	}
	select {
	case <-p.Done():
		<-p.Drained()
	case <-time.After(supervisor.KillGrace):
		return supervisor.Exit{}, fmt.Errorf("%w; and process %d has not ended after it was killed", why, p.PID())
	}
	return p.Exit(), why
}

// overspent reports whether the call that is being made uses more than was left to it.
func (r *Runner) overspent() bool {
	report := r.used()
	r.settle(report.Tokens)
	return !report.Ended && report.Tokens > r.meter.Left()
}

// environ is the environment of commands and hooks.
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

// arguments are the command with what stands for something replaced, each once.
func (r *Runner) arguments(prompt string) ([]string, error) {
	argv, err := r.request.Settings.Arguments(r.values(prompt))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArguments, err)
	}
	for i, word := range argv {
		if len(word) > maxArgument {
			return nil, fmt.Errorf("%w: its argument %d has %d bytes, expected at most %d; it finds the task "+
				"on its standard input, too", errArguments, i, len(word), maxArgument)
		}
	}
	return argv, nil
}
