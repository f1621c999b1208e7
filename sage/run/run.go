// Package run runs a checked Sage program on a host, with the settings of its project, its model
// and its tools.
package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/llm"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/tools"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options connect a program to its surroundings. All fields may be nil.
type Options struct {
	// Host is nil for a program whose agents do not run here.
	Host host.Host
	// Child returns an agent of the project's coppice.toml as a child of a supervisor of the
	// program.
	Child func(name string) (supervisor.ChildSpec, error)

	// Limits bound what agents may use; zero fields are the defaults.
	Limits eval.Limits

	In      io.Reader // of read_line and read_all
	Trace   io.Writer // receives the events of the program as NDJSON
	OnEvent func(supervisor.Event)
	Logger  *slog.Logger
}

// Program is a program that can run once. It has to be closed.
type Program struct {
	instance *eval.Instance

	mu      sync.Mutex
	root    *supervisor.Supervisor // nil before Run
	stopped bool
	killed  bool
}

// SettingsError means that an environment variable has a wrong value.
type SettingsError struct{ Err error }

// Error names the variable.
func (e *SettingsError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SettingsError) Unwrap() error { return e.Err }

// Open compiles a program that was checked without errors.
func Open(p *load.Program, info *check.Info, o Options) (*Program, error) {
	if info.Entry == nil {
		return nil, eval.ErrNothingToRun
	}
	program, err := eval.Load(info)
	if err != nil {
		return nil, err
	}
	settings := eval.Options{
		Beliefs: o.Host, Output: o.Host, Limits: o.Limits, In: o.In, Process: o.Child, OnEvent: o.OnEvent,
		Log: o.Logger,
	}
	if settings.Tools, err = toolSettings(p); err != nil {
		return nil, err
	}
	settings.Tools.Commands = o.Host
	if settings.Oracle, err = model(p, o.Host); err != nil {
		return nil, err
	}
	if p.Settings != nil {
		settings.Limit = p.Settings.Limit
	}
	if p.Settings == nil || p.Settings.Trace {
		settings.Trace = o.Trace
	}
	return &Program{instance: program.New(settings)}, nil
}

// model returns the model of the program: the command of its project or the server in the
// environment. The environment can also select a mock. If there is none, the result is nil, which
// is an error only for programs that ask a model.
func model(p *load.Program, commands host.Commands) (llm.Oracle, error) {
	key, _ := os.LookupEnv(llm.EnvKey)
	if p.Settings != nil && p.Settings.Divine.Command != nil && key != llm.MockKey {
		d := p.Settings.Divine
		return llm.Checked(&llm.Command{
			Host: commands, Argv: d.Command, Dir: p.Root, Env: os.Environ(), Timeout: d.Timeout,
			Format: d.Format,
		}, llm.DefaultRetries), nil
	}
	o, err := llm.FromEnv(os.LookupEnv)
	switch {
	case errors.Is(err, llm.ErrNotConfigured):
		return nil, nil
	case err != nil:
		return nil, &SettingsError{err}
	}
	return o, nil
}

// toolSettings returns the settings of the tools. Files and commands are in the directory of the
// project unless the environment says otherwise.
func toolSettings(p *load.Program) (tools.Settings, error) {
	dir := cmp.Or(p.Root, filepath.Dir(p.Entry))
	settings, err := tools.Settings{Root: dir, Dir: dir}.Environ(os.LookupEnv)
	if err != nil {
		return settings, &SettingsError{err}
	}
	return settings, nil
}

// Tree returns the program as a tree of supervisors for a host that runs it below its own
// supervisors. The host has to pass the events of that tree to Traced.
func (p *Program) Tree() (supervisor.Spec, error) { return p.instance.Spec() }

// Traced writes an event of a supervisor of the program to its trace.
func (p *Program) Traced(e supervisor.Event) { p.instance.Traced(e) }

// Run runs the program until it ends or is stopped by Stop. The error is that of
// eval.Instance.Reason.
func (p *Program) Run(ctx context.Context) error {
	tree, err := p.instance.Spec()
	if err != nil {
		return err
	}
	root, err := supervisor.Launch(ctx, tree)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.root = root
	stopped, killed := p.stopped, p.killed
	p.mu.Unlock()
	switch {
	case killed:
		root.Kill()
	case stopped:
		root.Stop()
	}
	return p.instance.Reason(root.Wait())
}

// Stop stops the program in order: the agents run their on resting, the last started first. The
// second call kills the program. The flag is ignored.
func (p *Program) Stop(bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := p.stopped
	p.stopped = true
	p.killed = again
	switch {
	case p.root == nil:
	case again:
		p.root.Kill()
	default:
		p.root.Stop()
	}
}

// Pause makes all agents take no messages. It waits until those that can pause at once have run
// their on pause, or ctx ends.
func (p *Program) Pause(ctx context.Context) { p.instance.Pause(ctx) }

// Resume ends Pause.
func (p *Program) Resume() { p.instance.Resume() }

// Close closes the tools of the program. All its agents must have ended.
func (p *Program) Close() error { return p.instance.Close() }
