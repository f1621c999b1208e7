package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/task"
)

// Two agents work at the same tasks. A change that one has made and a person has approved is merged by the other one,
// without another attempt. What an ordinary agent has shown is merged by none.
func TestPipelineSameTasks(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, 1, `mode = "evolution"`, `
[[agent]]
name = "second"
command = "./model.sh"
env = { DESK = "the desk" }
read_write_paths = ["what it writes"]
[agent.pipeline]
tasks = "fixer"
mode = "evolution"
fix_attempts = 0
test = "./check.sh"

[[agent]]
name = "liar"
command = "./liar.sh"
restart = "never"`)
	exectest.Write(t, filepath.Join(p.dir, "liar.sh"), `#!/bin/sh
id=$(coppice agent task claim -q --wait --pool fixer) || exit
git branch lies && coppice agent outcome blocked --task "$id" --until 'person=read it' --approach a --obstacle b \
	--branch lies --commit "$(git commit-tree -p main -m lies main:)"
`)
	p.edit("the desk", p.desk)
	p.edit("what it writes", p.desk)
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "two agents")
	p.up()
	p.do("stop", "second", "liar")
	id := p.add("edit a", "--pool", "fixer")
	if d := p.await(id, "asked", isAsked); d.Attempts[0].By != "t/fixer/fixer-1" || p.merged(id) != 0 {
		t.Fatalf("%+v", d.Attempts)
	}
	p.do("stop", "fixer")
	p.do("start", "second")
	p.do("task", "approve", id)
	d := p.await(id, "done", isClosed)
	if len(d.Attempts) != 2 || d.Attempts[1].By != "t/second" || d.Task.Outcome != task.Completed || p.merged(id) != 1 {
		t.Errorf("%+v", d)
	}
	if _, err := os.Stat(filepath.Join(p.desk, "prompts", id+"-plan-2")); err == nil {
		t.Error("a change that was approved was planned again")
	}

	p.do("stop", "second")
	id = p.add("edit b", "--pool", "fixer")
	p.do("start", "liar")
	if d := p.await(id, "asked", isAsked); d.Attempts[0].By != "t/liar" || d.Attempts[0].Outcome.Evidence == nil {
		t.Fatalf("%+v", d.Attempts)
	}
	p.do("start", "second")
	p.do("task", "approve", id)
	d = p.await(id, "asked about another change", func(t task.Task) bool { return t.Question != nil && t.Claims == 2 })
	if !strings.Contains(d.Task.Question.Text, "Review the change on the branch review/") || p.merged(id) != 0 {
		t.Errorf("%+v", d.Task)
	}
	p.prompt(id, "plan", 2)
	if out := p.git(p.dir, "log", "--format=%s", "main"); strings.Contains(out, "lies") {
		t.Errorf("what an ordinary agent has shown was merged:\n%s", out)
	}
	p.wantClean()
}
