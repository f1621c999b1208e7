// Package host gives a Sage program what it needs around it: the settings of
// its project, the file in which its beliefs are kept, the model that it asks,
// and the processes that are children of its supervisors.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/llm"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/tools"
	"github.com/coppice-dev/coppice/supervisor"
)

// Options are the streams of a run, and who is told of it. All may be nil.
type Options struct {
	Out, Err io.Writer // of print and print_err
	In       io.Reader // of read_line and read_all
	Trace    io.Writer // gets events of the program as NDJSON
	// OnEvent is told what the supervisors do, Output what processes write.
	OnEvent func(supervisor.Event)
	Output  func(path string, incarnation uint64, line proc.Line)
	Logger  *slog.Logger
}

// Stage is a program that is ready to run, once. Close it.
type Stage struct {
	instance *eval.Instance
	ends     []func() error // what is to be closed, the last one first

	mu      sync.Mutex
	root    *supervisor.Supervisor // once it runs
	stopped bool
	killed  bool
}

// InUseError: another run of the program keeps its beliefs in the same file.
type InUseError struct{ Path string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("another run of this program keeps its beliefs in %s; stop it first, or give this one "+
		"another file by [persistence] path in grove.toml", e.Path)
}

// SettingsError: a variable of the environment is wrong, which its text names.
type SettingsError struct{ Err error }

func (e *SettingsError) Error() string { return e.Err.Error() }
func (e *SettingsError) Unwrap() error { return e.Err }

// Open makes a stage for a program that was checked without errors.
func Open(ctx context.Context, p *load.Program, info *check.Info, o Options) (*Stage, error) {
	s := new(Stage)
	if err := s.open(ctx, p, info, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stage) open(ctx context.Context, p *load.Program, info *check.Info, o Options) error {
	if info.Entry == nil {
		return eval.ErrNothingToRun
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	program, err := eval.Load(info)
	if err != nil {
		return err
	}
	around, err := surroundings(p)
	if err != nil {
		return err
	}
	around.Out, around.Err, around.In, around.OnEvent, around.Log = o.Out, o.Err, o.In, o.OnEvent, o.Logger
	if traces(p) {
		around.Trace = o.Trace
	}
	if p.Grove != nil {
		if around.Beliefs, err = s.beliefs(ctx, p, o.Logger); err != nil {
			return err
		}
	} else if name := persists(info); name != "" {
		o.Logger.Warn("beliefs are forgotten when the program ends: "+
			"there is no grove.toml that says where to keep them",
			"agent", name)
	}
	if len(p.Processes) > 0 {
		fleet, err := newFleet(p.Fleet, o.Output)
		if err != nil {
			return err
		}
		around.Process = fleet.child
	}
	s.instance = program.New(around)
	s.ends = append(s.ends, s.instance.Close)
	return nil
}

// surroundings are those of a program wherever it runs: its limits, its tools,
// and whom it asks.
func surroundings(p *load.Program) (o eval.Options, err error) {
	if o.Tools, err = settingsOf(p); err != nil {
		return o, err
	}
	if o.Oracle, err = asked(p); err != nil {
		return o, err
	}
	if p.Grove != nil {
		o.Limit = p.Grove.Limit
	}
	return o, nil
}

// asked is whom the program asks: the command of its project, or who is named by
// the environment, which can say that nobody is to be asked at all. It is nil if
// nobody is named: that matters to programs which ask.
func asked(p *load.Program) (llm.Oracle, error) {
	key, _ := os.LookupEnv(llm.EnvKey)
	if p.Grove != nil && p.Grove.Divine.Command != nil && key != llm.MockKey {
		d := p.Grove.Divine
		format := [...]llm.Format{
			config.PlainText: llm.Text, config.Claude: llm.Claude, config.Codex: llm.Codex,
			config.Gemini: llm.Gemini,
		}[d.Format]
		return llm.Checked(&llm.Command{
			Argv: d.Command, Dir: p.Root, Env: os.Environ(), Timeout: d.Timeout, Format: format,
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

// traces reports whether the project wants traces at all.
func traces(p *load.Program) bool { return p.Grove == nil || p.Grove.Trace != config.NoTrace }

// settingsOf are those of the tools of a program: its files and commands are
// where its project is, unless the environment says something else.
func settingsOf(p *load.Program) (tools.Settings, error) {
	dir := p.Root
	if dir == "" {
		dir = filepath.Dir(p.Entry)
	}
	settings, err := tools.Settings{Root: dir, Dir: dir}.Environ(os.LookupEnv)
	if err != nil {
		return settings, &SettingsError{err}
	}
	return settings, nil
}

// persists is the name of an agent that has something to remember, if there is one.
func persists(info *check.Info) string {
	for _, a := range info.Agents {
		for _, f := range a.Decl.Fields() {
			if f.Persistent {
				return a.Object.Name
			}
		}
	}
	return ""
}

// beliefs opens what the project says.
func (s *Stage) beliefs(ctx context.Context, p *load.Program, l *slog.Logger) (eval.Beliefs, error) {
	if p.Grove.Persistence.Backend == spec.Memory {
		return eval.NewMemory(), nil
	}
	path := p.Grove.Persistence.Path.Value
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the beliefs: %w", err)
	}
	kept, err := sqlite.Open(ctx, path)
	if errors.Is(err, sqlite.ErrInUse) {
		return nil, &InUseError{path}
	}
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, kept.Close)
	book, problems, err := belief.Open(ctx, kept)
	if err != nil {
		return nil, err
	}
	for _, problem := range problems {
		l.Warn(problem.Message, "agent", problem.Path, "belief", problem.Name)
	}
	return eval.InBook(book), nil
}

// Run runs the program until it ends, or Stop or Kill end it. The error says
// why it failed; of an agent that is run alone it is the agent's own.
func (s *Stage) Run(ctx context.Context) error {
	tree, err := s.instance.Spec()
	if err != nil {
		return err
	}
	root, err := supervisor.Launch(ctx, tree)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.root = root
	stopped, killed := s.stopped, s.killed
	s.mu.Unlock()
	switch {
	case killed:
		root.Kill()
	case stopped:
		root.Stop()
	}
	return s.instance.Reason(root.Wait())
}

// Stop ends the program in order: on resting of all that live, in reverse
// order. The second call kills. The flag is there for whoever stops fleets.
func (s *Stage) Stop(bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.stopped
	s.stopped = true
	s.killed = again
	switch {
	case s.root == nil:
	case again:
		s.root.Kill()
	default:
		s.root.Stop()
	}
}

// Pause makes all agents take no messages, after their on pause; it waits for
// those that can do that at once, until ctx ends. Resume ends it.
func (s *Stage) Pause(ctx context.Context) { s.instance.PauseAll(ctx) }

// Resume ends Pause.
func (s *Stage) Resume() { s.instance.ResumeAll() }

// Close lets go of everything. Nothing of the program may run any more.
func (s *Stage) Close() error {
	var errs []error
	for i := len(s.ends) - 1; i >= 0; i-- {
		errs = append(errs, s.ends[i]())
	}
	s.ends = nil
	return errors.Join(errs...)
}
