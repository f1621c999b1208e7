package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/internal/token"
)

// namedPools answers for pools whose names it returns as reasons.
type namedPools struct{ err error }

func (p namedPools) PoolTasks(_ context.Context, pool string) (task.PoolTasks, error) {
	return task.PoolTasks{Pool: pools.Pool{Name: pool, State: pools.Open}, Ready: 2}, p.err
}

func (p namedPools) LastAttempts(_ context.Context, pool string, n int) ([]task.Tried, error) {
	return []task.Tried{{Task: fmt.Sprint(pool, " ", n)}}, p.err
}

// harness has Workers of a project with these agents below it: fixer, a/same, b/same, and plain, which is none.
type harness struct {
	*Workers
	dir     string
	running map[string]uint64 // incarnations by path
	ended   bool              // they have ended
	log     bytes.Buffer
}

func newHarness(t *testing.T) *harness {
	h := &harness{dir: t.TempDir(), running: map[string]uint64{}}
	agent := func(name string) *spec.Agent {
		return &spec.Agent{Name: name, Pipeline: &pipeline.Settings{Mode: "maintenance", Branch: name + "-branch",
			Stages: []pipeline.Stage{{Command: []string{"claude", "-p"}}, {}, {Command: []string{"make"}}, {}, {}, {}}}}
	}
	below := func(name string) spec.Child {
		return spec.Child{Node: &spec.Node{Name: name, Children: []spec.Child{{Agent: agent("same")}}}}
	}
	pool := agent("fixer")
	pool.Pool = &spec.Pool{Min: 2, Max: 2}
	tree := &spec.Tree{Root: &spec.Node{Name: "t", Children: []spec.Child{
		{Agent: &spec.Agent{Name: "plain"}}, {Node: &spec.Node{Name: "fixer", Template: pool}}, below("b"), below("a"),
	}}}
	h.Workers = &Workers{
		Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		Dir:    func(path string) string { return filepath.Join(h.dir, strings.ReplaceAll(path, "/", "_")) },
		Agent: func(path string) *spec.Agent {
			for p, c := range tree.Minimal().All() {
				if p == path {
					return c.Agent
				}
			}
			return nil
		},
		Tree: func() *spec.Tree { return tree }, Tasks: namedPools{},
		Nodes: func(_ context.Context, at string) (all []Worker, err error) {
			for path, c := range tree.Minimal().All() {
				if c.Agent != nil && (path == at || strings.HasPrefix(path, at+"/")) {
					w := Worker{Path: path, Incarnation: h.running[path], Running: h.running[path] != 0 && !h.ended}
					all = append(all, w)
				}
			}
			return all, nil
		},
	}
	return h
}

func TestList(t *testing.T) {
	h := newHarness(t)
	h.Launch(token.Caller{Path: "t/fixer/fixer-1", Incarnation: 3}, h.Agent("t/fixer/fixer-1"))
	h.running["t/fixer/fixer-1"], h.running["t/fixer/fixer-2"] = 3, 5
	at := progress.Progress{Incarnation: 3, Task: "t-1", Attempt: 1, Stage: "plan"}
	if err := progress.Write(h.Dir("t/fixer/fixer-1"), at); err != nil {
		t.Fatal(err)
	}
	all, err := h.list(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []string{"a/same same 1 0", "b/same same 1 0", "fixer fixer 2 1"} {
		one := all[i]
		if got := fmt.Sprintf("%s %s %d %d", one.Name, one.Tasks.Pool.Name, one.Workers, one.AtWork); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	d, err := h.get(t.Context(), "/t/fixer/")
	if err != nil || d.Pipeline.Name != "fixer" || d.Workers[0].At.Task != "t-1" || d.Workers[1].At != nil ||
		d.Attempts[0].Task != "fixer 10" {
		t.Errorf("%+v, %v", d, err)
	}
	if s := d.Stages; len(s) != 6 || s[0].CLI != "claude" || s[0].Worktree || s[0].Homes[0] != ".claude" ||
		s[2].CLI != "" || !s[2].Worktree || s[2].Homes != nil {
		t.Errorf("%+v", s)
	}

	// What an incarnation has left is not what its successor does, nor an agent that does not run.
	h.running["t/fixer/fixer-1"] = 4
	if d, err := h.get(t.Context(), "fixer"); err != nil || d.Pipeline.AtWork != 0 {
		t.Errorf("%+v, %v", d.Workers, err)
	}
	h.running["t/fixer/fixer-1"], h.ended = 3, true
	if d, err := h.get(t.Context(), "fixer"); err != nil || d.Pipeline.AtWork != 0 || d.Workers[0].Incarnation != 3 {
		t.Errorf("%+v, %v", d.Workers, err)
	}
	h.ended = false
	h.Launch(token.Caller{Path: "t/fixer/fixer-1", Incarnation: 3}, h.Agent("t/fixer/fixer-1"))
	if d, err := h.get(t.Context(), "fixer"); err != nil || d.Pipeline.AtWork != 0 {
		t.Errorf("a run begins with the numbers of the one before: %+v, %v", d.Workers, err)
	}

	// A damaged file is in the log, and the rest is shown.
	if err := os.WriteFile(filepath.Join(h.Dir("t/fixer/fixer-1"), "progress.json"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := h.get(t.Context(), "fixer"); err != nil || d.Pipeline.AtWork != 0 ||
		!strings.Contains(h.log.String(), "progress.json") {
		t.Errorf("%+v, %v, %s", d.Workers, err, &h.log)
	}
	h.Tasks = namedPools{errors.New("the store is closed")}
	if _, err := h.list(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestFind(t *testing.T) {
	h := newHarness(t)
	for name, want := range map[string]struct {
		path string
		err  error
		text string
	}{
		"fixer":   {path: "fixer"},
		"t/fixer": {path: "fixer"},
		"a/same":  {path: "a/same"},
		"same":    {err: api.ErrConflict, text: "a/same, b/same"},
		"fixr":    {err: api.ErrNotFound, text: `did you mean "fixer"?`},
		"plain":   {err: api.ErrNotFound, text: "coppice pipeline ls"},
		"":        {err: api.ErrNotFound},
	} {
		got, err := h.find(name, h.pipelines())
		if got != want.path || !errors.Is(err, want.err) || err != nil && !strings.Contains(err.Error(), want.text) {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

func TestExplain(t *testing.T) {
	h := newHarness(t)
	if facts := h.Explain("t/plain", 1); facts != nil {
		t.Errorf("of an agent that is no worker: %q", facts)
	}
	if facts := h.Explain("t/a/same", 0); len(facts) != 1 || !strings.Contains(facts[0], "its stages may write") {
		t.Errorf("%q", facts)
	}
	now := time.Now()
	at := progress.Progress{Task: "t-1", Attempt: 2, Since: now.Add(-90 * time.Second)}
	if got := workText(at, now); got != "it works at t-1, attempt 2, and prepares its worktree for 1m30s" {
		t.Errorf("%q", got)
	}
	at.Stage, at.Mode = "test", "evolution"
	const want = "it works at t-1, attempt 2, and is in the stage test for 1m30s, in evolution mode"
	if got := workText(at, now); got != want {
		t.Errorf("%q", got)
	}
	for _, tt := range []struct {
		writable, readOnly []string
		supported          error
		want               string
	}{
		{nil, nil, nil, "the directories of their command lines; the kernel enforces that"},
		{[]string{"/x"}, []string{"/x/y"}, nil, "command lines, /x; not to /x/y; the kernel enforces that"},
		{nil, nil, errors.New("no Landlock"), "may write wherever their user may: no Landlock"},
		{[]string{"/x"}, nil, errors.New("no Landlock"), "none can run, as nothing can enforce that: no Landlock"},
		{[]string{"/"}, nil, nil, "may write wherever their user may: read_write_paths has /"},
	} {
		s := pipeline.Settings{Writable: tt.writable, ReadOnly: tt.readOnly}
		if got := writesText(s, unconfined(s, tt.supported)); !strings.Contains(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
