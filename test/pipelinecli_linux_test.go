package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline/workers"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// shown returns what coppice pipeline show prints of the fixer as JSON.
func (p pipelineProject) shown() (d workers.Detail) {
	p.t.Helper()
	// Without a daemon a note on standard error comes first.
	out := p.do("pipeline", "show", "fixer", "--json")
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &d); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return d
}

// awaitPause waits until the model of a task "pause ..." holds its stage implement.
func (p pipelineProject) awaitPause() {
	p.t.Helper()
	eventually(p.t, "the model pauses", func() bool {
		_, err := os.Stat(filepath.Join(p.desk, "pauses"))
		return err == nil
	})
}

// goOn lets the model of a task "pause ..." go on.
func (p pipelineProject) goOn() { write(p.t, filepath.Join(p.desk, "pipe2"), "go on\n") }

// contains checks that a text has these parts.
func (p pipelineProject) contains(text string, parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if !regexp.MustCompile(part).MatchString(text) {
			p.t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// The commands show what each worker does, with a daemon and without, and stop claims of tasks, for people only.
func TestPipelineCommands(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 2, `branch = "main"`, `plan = { command = "./model.sh", tokens = "2k", timeout = "5m" }`,
		`archive = { command = "true", skip_if = { labels = ["quiet"] } }`,
		"[[agent.pipeline.modes]]", `mode = "evolution"`, `labels = ["feature"]`)
	p.edit("[[agent]]\nname = \"fixer\"", shellTOML("hand")+"\n[[agent]]\nname = \"fixer\"")
	if err := syscall.Mkfifo(filepath.Join(p.dir, "hand.fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := p.try("pipeline", "ls"); err != nil || !strings.Contains(out, "0 of 0") {
		t.Errorf("before the first daemon: %s %v", out, err)
	}
	p.up()
	id := p.add("pause b", "--pool", "fixer")
	p.awaitPause()
	page, err := os.ReadFile(filepath.Join(root, "docs", "pipeline.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, listed, _ := strings.Cut(string(page), "$ coppice pipeline ls\n")
	listed, _, _ = strings.Cut(listed, "```")
	if out := p.do("pipeline", "ls"); sameText(out) != sameText(listed) {
		t.Errorf("it is\n%s\nthe page shows\n%s", out, listed)
	}
	worker := p.task(id).Claim.By
	wantWork := func(when string) {
		t.Helper()
		d := p.shown()
		if len(d.Workers) != 2 || d.Pipeline.AtWork != 1 || d.Pipeline.Tasks.InProgress != 1 {
			t.Fatalf("%s: %+v", when, d)
		}
		for _, w := range d.Workers {
			if w.Path == worker {
				if w.At == nil || w.At.Task != id || w.At.Attempt != 1 || w.At.Stage != "implement" ||
					w.At.Mode != "maintenance" || w.At.Since.Before(w.At.BeganAt) || w.At.Incarnation != w.Incarnation {
					t.Errorf("%s: %+v", when, w.At)
				} else if _, err := os.Stat(filepath.Join(w.At.Worktree, ".git")); err != nil {
					t.Errorf("%s: %q is no worktree: %v", when, w.At.Worktree, err)
				}
			} else if w.At != nil || !w.Running {
				t.Errorf("%s: %+v", when, w)
			}
		}
	}
	wantWork("with a daemon")
	p.contains(p.do("pipeline", "show", "t/fixer"), `mode +maintenance; evolution for label feature`,
		`protected +\.github`, `writes +.*`+regexp.QuoteMeta(p.desk)+`; enforced by the kernel`,
		`plan +- +5m00s +1 +2,000 +read +- +\./model.sh`, `test +- +30m00s +1 +- +write +- +\./check.sh`,
		`release .*\(Coppice merges the change\)`, `archive .* label quiet +true`,
		`fixer/fixer-\d +running +`+id+` +1 +maintenance +implement +\d+:`)
	p.contains(p.do("explain", worker), `it works at `+id+`, attempt 1, and is in the stage implement for `,
		`its stages may write only to their worktree .*; the kernel enforces that`)
	if out, err := p.try("pipeline", "show", "fixr"); err == nil || !strings.Contains(out, `did you mean "fixer"`) {
		t.Errorf("%s, %v", out, err)
	}
	if out := p.do("__complete", "pipeline", "pause", ""); !strings.HasPrefix(out, "fixer\topen\n") {
		t.Errorf("completion: %s", out)
	}

	p.crash()
	wantWork("without a daemon")
	p.contains(p.do("explain", worker), `it works at `+id+`, attempt 1, and is in the stage implement for `)
	p.up()
	wantWork("with the next daemon")

	// Each of these is refused, and changes nothing.
	for name, script := range evasions("coppice pipeline pause fixer") {
		if out, code := p.inAgent("hand", script); code == 0 {
			t.Errorf("%s: an agent has paused a pipeline: %s", name, out)
		}
	}
	p.contains(p.do("pipeline", "ls"), `fixer +open `)
	p.contains(p.do("pipeline", "pause", "fixer", "-r", "the moon"), "the tasks of fixer are paused")
	next := p.add("edit c", "--pool", "fixer")
	p.contains(p.do("pipeline", "ls"), `fixer +paused +1 of 2 +1 +1 +0 `)
	p.contains(p.do("pipeline", "show", "fixer"), `paused by .*: the moon; coppice pipeline resume fixer`)
	p.goOn()
	p.await(id, "done", isClosed)
	if d := p.task(next); !d.Paused || d.Claims != 0 {
		t.Errorf("%+v", d)
	}
	if out, code := p.inAgent("hand", "coppice pipeline resume fixer"); code == 0 {
		t.Errorf("an agent has resumed a pipeline: %s", out)
	}
	p.contains(p.do("task", "resume", "fixer"), "the tasks of fixer are claimed") // one mechanism
	p.await(next, "done", isClosed)
	d := p.shown()
	if len(d.Attempts) != 2 || d.Attempts[0].Task != next || d.Attempts[1].Attempt.Outcome.Kind != outcome.Completed ||
		d.Pipeline.Tasks.Pool.State != pools.Open || d.Unconfined != "" {
		t.Errorf("%+v", d)
	}
	p.contains(p.do("pipeline", "show", "fixer"), next+` +1 +[0-9:]+ +.*fixer/fixer-\d +completed`)
}
