package fakeagent

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/answer"
	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
)

// newStage returns a run whose calls are made in a stage of a pipeline, in a linked worktree.
func newStage(t *testing.T, plan string, n pipeline.Name) (f *fake, base string) {
	t.Helper()
	exectest.Need(t, "git")
	f = newFake(t, plan)
	f.env = []string{"COPPICE_STAGE=" + n.String(), "COPPICE_TASK=web-x4k", "COPPICE_ATTEMPT=2"}
	main, work := filepath.Join(f.dir, "main"), filepath.Join(f.dir, "work")
	for _, args := range [][]string{
		{"init", "--quiet", main},
		{"-C", main, "-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "--quiet", "--allow-empty",
			"-m", "first"},
		{"-C", main, "worktree", "add", "--quiet", "-b", "work", work},
	} {
		if _, err := git(f.dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	base, err := git(main, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return f, base
}

// answerOf makes a call, and returns the answer that fits the schema of a stage.
func (f *fake) answerOf(cli agentcli.CLI, n pipeline.Name) ([]byte, error) {
	f.t.Helper()
	e := f.call(cli, jsonCall(cli)...)
	if e.Code != 0 || e.err != "" && cli != agentcli.Codex {
		f.t.Errorf("exit code %d: %s", e.Code, e.err)
	}
	schema, err := answer.ParseSchema([]byte(attempt.Schema(n)))
	if err != nil {
		f.t.Fatal(err)
	}
	return schema.Find(cmp.Or(e.Output.Text, e.Output.Said))
}

// changed returns what the rules of maintenance mode say about the change in the worktree, and its files.
func (f *fake) changed(base string) (found []change.Finding, files []string) {
	f.t.Helper()
	rules, err := change.NewRules(change.Maintenance, nil, nil, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := change.Read(f.t.Context(), filepath.Join(f.dir, "work"), base)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, file := range c.Files {
		files = append(files, file.Path)
	}
	return change.Check(c, rules), files
}

// In each stage, fakes of all command lines answer what the stage asks for, and implement changes the file of the plan.
func TestStages(t *testing.T) {
	t.Parallel()
	for _, cli := range headless() {
		t.Run(string(cli), func(t *testing.T) {
			t.Parallel()
			f, base := newStage(t, "ok", pipeline.Plan)
			text, err := f.answerOf(cli, pipeline.Plan)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := attempt.Read[attempt.Answer](text)
			if err != nil || len(plan.Steps) != 1 || len(plan.Steps[0].Files) != 1 {
				t.Fatalf("%s: %v", text, err)
			}
			if _, files := f.changed(base); len(files) > 0 {
				t.Errorf("the plan has changed %q", files)
			}

			f.env[0] = "COPPICE_STAGE=implement"
			for n := range 2 { // the second repairs the change of the first
				text, err = f.answerOf(cli, pipeline.Implement)
				if err != nil {
					t.Fatal(err)
				}
				done, err := attempt.Read[attempt.Done](text)
				if err != nil || done.Summary == "" || done.Subject == "" {
					t.Errorf("%s: %v", text, err)
				}
				found, files := f.changed(base)
				if len(found) > 0 || len(files) != 1 || files[0] != plan.Steps[0].Files[0] {
					t.Fatalf("%q were changed, %q was planned: %v", files, plan.Steps[0].Files, found)
				}
				now, err := os.ReadFile(filepath.Join(f.dir, "work", files[0]))
				if err != nil || strings.Count(string(now), "in attempt 2.\n") != n+1 {
					t.Errorf("%q, %v", now, err)
				}
			}

			f.env[0] = "COPPICE_STAGE=security"
			if text, err = f.answerOf(cli, pipeline.Security); err != nil || string(text) != `{"verdict":"pass"}` {
				t.Errorf("%s: %v", text, err)
			}
			f.env[0] = "COPPICE_STAGE=test"
			e := f.call(cli, jsonCall(cli)...)
			if !strings.Contains(e.out, "nothing") || strings.Contains(e.out, "verdict") {
				t.Errorf("%s", e.out)
			}
		})
	}
}

// Scenarios of pipelines are refused by the stage that they are for, and pass the others.
func TestStageScenarios(t *testing.T) {
	t.Parallel()
	f, _ := newStage(t, "unusable", pipeline.Plan)
	if text, err := f.answerOf(agentcli.Claude, pipeline.Plan); err == nil {
		t.Errorf("unusable: %s", text)
	}
	f, base := newStage(t, "wide", pipeline.Implement)
	if text, err := f.answerOf(agentcli.Claude, pipeline.Implement); err != nil {
		t.Errorf("wide: %s: %v", text, err)
	}
	found, files := f.changed(base)
	if len(found) != 1 || found[0].Rule != change.RuleFiles || len(files) != wideFiles {
		t.Errorf("wide: %q: %v", files, found)
	}
	f, _ = newStage(t, "block", pipeline.Security)
	text, err := f.answerOf(agentcli.Claude, pipeline.Security)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := attempt.Read[attempt.Review](text); err != nil || r.Verdict != attempt.Block || len(r.Findings) != 1 {
		t.Errorf("block: %s: %v", text, err)
	}
	// What does not end well, or only says so, changes nothing.
	for _, plan := range []string{"crash", "liar", "quota"} {
		f, base := newStage(t, plan, pipeline.Implement)
		f.call(agentcli.Claude, jsonCall(agentcli.Claude)...)
		if _, files := f.changed(base); len(files) > 0 {
			t.Errorf("%s has changed %q", plan, files)
		}
	}
}

// A fake changes nothing outside of a linked worktree, also not where a link leads.
func TestStageOutside(t *testing.T) {
	t.Parallel()
	f, _ := newStage(t, "ok", pipeline.Implement)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(f.dir, "work", "fake")); err != nil {
		t.Fatal(err)
	}
	e := f.call(agentcli.Claude, jsonCall(agentcli.Claude)...)
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if e.Code != 0 || !strings.Contains(e.err, "fake claude: nothing is changed: ") {
		t.Errorf("%d: %s", e.Code, e.err)
	}
	cmd := f.command(agentcli.Claude, jsonCall(agentcli.Claude)...)
	cmd.Dir = filepath.Join(f.dir, "main")
	e = f.await(agentcli.Claude, cmd, nil)
	if _, err := os.Stat(filepath.Join(cmd.Dir, "fake")); !os.IsNotExist(err) {
		t.Errorf("it changes the work tree of a person: %v", err)
	}
	if !strings.Contains(e.err, "nothing is changed: this is not a linked git worktree") {
		t.Errorf("%s", e.err)
	}
}
