package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// fakePipeline is a project with a pipeline in a git repository, which must not change while fakes run.
type fakePipeline struct {
	pipelineProject
	fakes fakeRun
	temp  string // for temporary files
}

func newFakePipeline(t *testing.T, keys ...string) fakePipeline {
	t.Helper()
	r := newFakeRun(t, `[daemon]
max_failed_tasks = 0

[[agent]]
name = "fixer"
command = "claude -p --output-format stream-json --verbose"

[agent.pipeline]
test = "./check.sh"
`+strings.Join(keys, "\n"))
	p := fakePipeline{pipelineIn(r.fleet), r, t.TempDir()}
	r.env = append(r.env, "TMPDIR="+p.temp)
	// The tests run for real, on the change of the fake.
	exectest.Write(t, filepath.Join(r.dir, "check.sh"),
		"#!/bin/sh\ngrep -q 'A fake of' fake/$COPPICE_TASK.txt && [ -e .env ]\n")
	for name, text := range map[string]string{".gitignore": ".env\n", ".worktreeinclude": ".env\n", ".env": "KEY=1\n"} {
		write(t, filepath.Join(r.dir, name), text)
	}
	exectest.Write(t, filepath.Join(r.dir, "outside.sh"), fmt.Sprintf("#!/bin/sh\necho \"$0\" >>%s/called\n",
		filepath.Dir(r.dir)))
	p.git(p.dir, "init", "-q", "-b", "main")
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "first")
	p.git(p.dir, "branch", "other")
	write(t, filepath.Join(p.dir, "check.sh"), "#!/bin/sh\n# not committed\nexit 1\n")
	return p
}

// pipelineIn returns the pipeline in the directory of a fleet.
func pipelineIn(f *fleet) pipelineProject { return pipelineProject{gcProject: gcProject{fleet: f}} }

// rehearse runs the project with a plan until do returns, and returns the copy of the repository, which stays.
func (p fakePipeline) rehearse(plan string, do func()) (copied, said string) {
	t := p.t
	t.Helper()
	project, home := listing(t, p.dir), listing(t, p.fakes.home)
	c := p.fakes.run("--fake", plan)
	c.out.awaitText(t, "t * started\n")
	do()
	c.signal(syscall.SIGINT)
	c.wantExit(exitSignalled + int(syscall.SIGINT))
	p.fakes.untouched(home)
	if after := listing(t, p.dir); after != project {
		t.Errorf("the project has changed: %d bytes, %d before", len(after), len(project))
	}
	said = c.err.String()
	result := regexp.MustCompile(`fakes: the copy of (\S+) has what its pipelines have done: (\S+)\n`).
		FindStringSubmatch(said)
	if result == nil || result[1] != p.dir || !strings.HasPrefix(result[2], p.temp) {
		t.Fatalf("the copy is not named:\n%s%s", said, c.out)
	}
	return result[2], said
}

// Tasks go through all stages of a pipeline with fakes. They are merged in a copy of the repository; the real one is
// byte for byte as before, and nothing that others could see has run.
func TestFakePipeline(t *testing.T) {
	t.Parallel()
	p := newFakePipeline(t, `release = "./outside.sh"`, `archive = "./outside.sh"`)
	var ids []string
	copied, said := p.rehearse("ok,pace=0s", func() {
		for _, title := range []string{"one", "two"} {
			ids = append(ids, p.add(title, "--pool", "fixer"))
		}
		for _, id := range ids {
			d := p.await(id, "done", isClosed)
			if len(d.Attempts) != 1 || d.Task.Outcome != task.Completed {
				t.Errorf("%+v", d.Attempts)
			}
		}
	})
	for _, id := range ids {
		if text, err := os.ReadFile(filepath.Join(copied, "fake", id+".txt")); err != nil ||
			string(text) != "A fake of claude was here, in attempt 1.\n" {
			t.Errorf("%q, %v", text, err)
		}
	}
	result := pipelineIn(&fleet{t: t, dir: copied})
	for _, id := range ids {
		if n := result.merged(id); n != 1 {
			t.Errorf("%s was merged %d times", id, n)
		}
	}
	result.wantClean()
	for _, want := range []string{
		"t/fixer works in a copy of ", "does not run its command of release", "does not run its command of archive",
		"fakes: 6 calls: 6 ok; ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	left, err := filepath.Glob(filepath.Join(p.temp, "*", "*"))
	if err != nil || len(left) != 1 || left[0] != copied {
		t.Errorf("%q are left, %v", left, err)
	}
}

// A call crashes in the stage implement, and the second attempt completes the task.
func TestFakePipelineCrash(t *testing.T) {
	t.Parallel()
	p := newFakePipeline(t, "implement = { retries = 0 }")
	var plan fakeagent.Plan
	for plays := ""; !strings.HasPrefix(plays, "ok crash ok ok ok "); { // a seed with which the second call crashes
		var err error
		if plan, err = fakeagent.Parse(fmt.Sprintf("crash%%50,pace=0s,seed=%d", plan.Seed+1)); err != nil {
			t.Fatal(err)
		}
		plays = ""
		for call := range uint64(5) {
			plays += string(plan.At(0, "t/fixer", call+1).Scenario) + " "
		}
	}
	var id string
	copied, _ := p.rehearse(plan.String(), func() {
		id = p.add("one", "--pool", "fixer")
		d := p.await(id, "done", isClosed)
		if len(d.Attempts) != 2 || d.Task.Outcome != task.Completed ||
			d.Attempts[0].Outcome.Kind != outcome.Retryable ||
			d.Attempts[0].Outcome.Context.Obstacle.Kind != outcome.Crash {
			t.Errorf("%+v", d.Attempts)
		}
	})
	text, err := os.ReadFile(filepath.Join(copied, "fake", id+".txt"))
	if err != nil || string(text) != "A fake of claude was here, in attempt 2.\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// What stages refuse is refused in a rehearsal, too.
func TestFakePipelineRefuses(t *testing.T) {
	t.Parallel()
	for plan, expected := range map[string]outcome.ObstacleKind{
		"unusable": outcome.SchemaMismatch, "wide": outcome.GuardDenied, "block": outcome.GuardDenied,
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			p := newFakePipeline(t)
			// All tries of an attempt are refused, and the review that blocks asks a person.
			c := p.fakes.run("--fake", plan+",pace=0s")
			c.out.awaitText(t, "t * started\n")
			id := p.add("one", "--pool", "fixer")
			eventually(t, plan, func() bool { return len(p.detail(id).Attempts) > 0 })
			d := p.detail(id)
			if o := d.Attempts[0].Outcome; o.Context == nil || o.Context.Obstacle.Kind != expected {
				t.Errorf("%+v", o)
			}
			if plan == "block" && (d.Task.Question == nil || !strings.Contains(d.Task.Question.Text, "told to block")) {
				t.Errorf("%+v", d.Task)
			}
			c.signal(syscall.SIGINT)
			c.exit()
			if out := p.git(p.dir, "for-each-ref"); strings.Count(out, "\n") != 1 {
				t.Errorf("the repository has other branches:\n%s", out)
			}
		})
	}
}
