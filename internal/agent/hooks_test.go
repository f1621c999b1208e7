package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// elsewhere is a runtime of other machines. It notes what it does.
type elsewhere struct {
	runtime.Runtime // panics where a test does not expect a call
	session         *played

	mu    sync.Mutex
	did   []string
	fails map[string]error // by what it does
	at    runtime.Launch   // of the last command
}

func (e *elsewhere) Kind() string { return "proc" }

func (e *elsewhere) do(what string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.did = append(e.did, what)
	return e.fails[what]
}

func (e *elsewhere) Place(context.Context, runtime.Launch) error { return e.do("place") }

func (e *elsewhere) Start(context.Context, runtime.Launch) (runtime.Session, error) {
	return e.session, e.do("start")
}

func (e *elsewhere) Exec(_ context.Context, l runtime.Launch, line func(proc.Line)) ([]string, error) {
	e.mu.Lock()
	e.at = l
	e.mu.Unlock()
	i := slices.IndexFunc(l.Env, func(kv string) bool { return strings.HasPrefix(kv, hookEnv+"=") })
	if i < 0 {
		return nil, e.do(l.Argv[0])
	}
	name := strings.TrimPrefix(l.Env[i], hookEnv+"=")
	line(proc.Line{Text: name})
	return []string{name}, e.do(name)
}

// since returns what a runtime has done since the last call.
func (e *elsewhere) since() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	did := e.did
	e.did = nil
	return strings.Join(did, " ")
}

type noDrains struct{}

func (noDrains) IsDraining(string, uint64) bool            { return false }
func (noDrains) Stops(string) bool                         { return false }
func (noDrains) AwaitStop(context.Context, string, uint64) {}

func (starts) AwaitEarlier(context.Context, string, uint64) {}

// away returns a supervisor's function that starts an agent with all hooks elsewhere, and the lines of its hooks.
func away(t *testing.T, e *elsewhere) (start func(context.Context) (supervisor.Process, error), m *Manager, lines func() int) {
	log, err := event.Open(event.Config{Store: memory.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close(context.Background()) })
	hook := spec.Hook{Command: []string{"x"}, Timeout: time.Minute}
	a := &spec.Agent{
		Name: "a", Dir: "/there", Home: "/there", Nudge: spec.Nudge{Command: []string{"nudge"}},
		Hooks: spec.Hooks{Waking: hook, Start: hook, Resting: hook, Error: hook, Death: hook},
	}
	var n int
	m = New(Options{
		Log: log, Starts: starts{}, Drains: noDrains{}, Runtimes: []runtime.Runtime{e}, Stopper: NewStopper(StopOptions{}),
		Fleet:  func() Fleet { return fleet{"": a} },
		Output: func(string, uint64, proc.Line) { n++ },
	})
	start, err = m.Start(a, syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	return start, m, func() int { return n }
}

// The hooks of an agent run where it does: its node is chosen before the first one.
func TestHooksElsewhere(t *testing.T) {
	e := &elsewhere{session: newPlayed(true)}
	start, m, lines := away(t, e)
	p, err := start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := e.since(), "place on_waking start on_start"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if e.at.Dir != "/there" || e.at.Home != "/there" || e.at.Grace != hookGrace {
		t.Errorf("%+v", e.at)
	}
	e.session.told("crash", true, supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 7}})
	if exit := <-waitFor(p.(*Process)); exit.Kind != supervisor.Failure {
		t.Error(exit)
	}
	if got, want := e.since(), "on_error on_death"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e.session = newPlayed(true)
	if p, err = start(t.Context()); err != nil {
		t.Fatal(err)
	}
	exit := waitFor(p.(*Process))
	p.Stop()
	<-exit
	if got, want := e.since(), "place on_waking start on_start on_resting"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if lines() != 7 {
		t.Errorf("%d lines of output, want 7", lines())
	}
	a := m.Fleet().Agents()[""]
	if _, err := m.RunCommand(t.Context(), a, token.Caller{}, a.Nudge.Command, "A=b"); err != nil {
		t.Error(err)
	}
	if got := e.since(); got != "nudge" || !slices.Contains(e.at.Env, "A=b") {
		t.Errorf("%q, %+v", got, e.at)
	}
	if slices.ContainsFunc(e.at.Env, func(kv string) bool { return strings.HasPrefix(kv, proc.EnvToken+"=") }) {
		t.Errorf("the nudge has a token: %q", e.at.Env)
	}
	if err := m.RunHook(t.Context(), "", a, "on_boot", spec.Hook{Command: []string{"true"}, Timeout: time.Minute}, nil); err != nil {
		t.Error(err)
	}
	if got := e.since(); got != "" {
		t.Errorf("on_boot has run elsewhere: %q", got)
	}
}

// What a node refuses says nothing about the agent. What fails on it does.
func TestHooksWithoutNode(t *testing.T) {
	for name, tt := range map[string]struct {
		fails string
		err   error
		did   string
		waits bool // its start is not counted as a failure
	}{
		"no node takes it":           {"place", runtime.ErrNoNode, "place", true},
		"the node has no lease":      {"on_waking", runtime.ErrFenced, "place on_waking", true},
		"the node is lost":           {"on_waking", runtime.ErrNodeLost, "place on_waking", true},
		"it is lost before start":    {"start", runtime.ErrNodeLost, "place on_waking start", true},
		"the hook fails":             {"on_waking", errors.New("exit code 3"), "place on_waking on_error", false},
		"the hook may have run":      {"on_waking", runtime.ErrUnknown, "place on_waking on_error", false},
		"the incarnation is too old": {"place", runtime.ErrStale, "place on_error", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &elsewhere{session: newPlayed(true), fails: map[string]error{tt.fails: fmt.Errorf("why: %w", tt.err)}}
			start, _, _ := away(t, e)
			_, err := start(t.Context())
			_, waits := errors.AsType[*supervisor.RetryError](err)
			if !errors.Is(err, tt.err) || waits != tt.waits {
				t.Errorf("%v", err)
			}
			if got := e.since(); got != tt.did {
				t.Errorf("%q, want %q", got, tt.did)
			}
		})
	}
}
