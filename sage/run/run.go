// Package run runs a checked Sage program on a host: with the settings of its
// project, the model that it asks, and its tools.
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

// Options connect a program to its surroundings. All but Host may be nil.
type Options struct {
	Host host.Host
	// Child returns an agent of the project's coppice.toml as a child of a
	// supervisor of the program.
	Child func(name string) (supervisor.ChildSpec, error)

	In      io.Reader // of read_line and read_all
	Trace   io.Writer // gets events of the program as NDJSON
	OnEvent func(supervisor.Event)
	Logger  *slog.Logger
}

// Program is a program that can run once. Close it.
type Program struct {
	instance *eval.Instance

	mu      sync.Mutex
	root    *supervisor.Supervisor // once it runs
	stopped bool
	killed  bool
}

// SettingsError means that a variable of the environment is wrong.
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
		Beliefs: o.Host, Output: o.Host, In: o.In, Process: o.Child, OnEvent: o.OnEvent, Log: o.Logger,
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

// model returns the model that the program asks: the command of its project, or
// the server that the environment names, which can also select a mock. It is nil
// if there is neither, which is an error only for a program that asks.
func model(p *load.Program, commands host.Commands) (llm.Oracle, error) {
	key, _ := os.LookupEnv(llm.EnvKey)
	if p.Settings != nil && p.Settings.Divine.Command != nil && key != llm.MockKey {
		d := p.Settings.Divine
		return llm.Checked(&llm.Command{
			Host: commands, Argv: d.Command, Dir: p.Root, Env: os.Environ(), Timeout: d.Timeout,
			Format: llm.Format(d.Format),
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

// toolSettings returns the settings of the tools of a program: its files and
// commands are in the directory of its project, unless the environment says
// something else.
func toolSettings(p *load.Program) (tools.Settings, error) {
	dir := cmp.Or(p.Root, filepath.Dir(p.Entry))
	settings, err := tools.Settings{Root: dir, Dir: dir}.Environ(os.LookupEnv)
	if err != nil {
		return settings, &SettingsError{err}
	}
	return settings, nil
}

// Tree returns the program as a tree of supervisors, for a host that runs it as
// a part of its own. Traced has to be called with the events of that part.
func (p *Program) Tree() (supervisor.Spec, error) { return p.instance.Spec() }

// Traced writes an event of a supervisor of the program to its trace.
func (p *Program) Traced(e supervisor.Event) { p.instance.Traced(e) }

// Run runs the program until it ends, or Stop or Kill end it. The error says
// why it failed; of an agent that is run alone it is the agent's own.
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

// Stop stops the program in order: every running agent runs its on resting, the
// last one started first. The second call kills. The flag is ignored.
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

// Pause makes all agents take no messages, after their on pause. It waits for
// those that can pause at once, until ctx ends. Resume ends it.
func (p *Program) Pause(ctx context.Context) { p.instance.Pause(ctx) }

// Resume ends Pause.
func (p *Program) Resume() { p.instance.Resume() }

// Close releases what the tools of the program have opened. None of its agents
// may still run.
func (p *Program) Close() error { return p.instance.Close() }
