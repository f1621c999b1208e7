package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// integrityModel changes a Go package as the title of its task says: its first word is what to do, and the second one
// what to do after a failure.
const integrityModel = `#!/bin/sh
prompt=$(cat)
printf '%s\n' "$prompt" >"$DESK/prompts/$COPPICE_TASK-$COPPICE_STAGE-$COPPICE_ATTEMPT"
set -- $(printf '%s\n' "$prompt" | sed -n 's/^| [a-z0-9.-]*: //p' | head -n 1)
case $COPPICE_STAGE in
plan) echo '{"steps":[{"name":"edit","instructions":"edit","files":["sum.go"]}]}'; exit ;;
security) exit ;;
esac
case $prompt in *'What has failed before'*) shift ;; esac
case $1 in
code) echo "// more" >>sum.go ;;
delete) sed -i '/^func TestSmall/,/^}/d' sum_test.go ;;
skip) sed -i 's/^func TestSmall.*/&\n\tt.Skip()/' sum_test.go ;;
empty) sed -i '/t.Error/d' sum_test.go ;;
case) sed -i 's/{1, 2},//' sum.go ;;
off) sed -i 's/true/false/' sum.go ;;
fix) sed -i 's/a + b - 1/a - b/' sum.go ;;
cheat) sed -i 's/!= 1/!= 4/' bug_test.go ;;
prove) sed -i 's/a + b - 1/a - b/' sum.go; sed '/^.*build/d; s/TestBug/TestNew/' bug_test.go >new_test.go ;;
pretend) sed '/^.*build/d; s/TestBug/TestNew/; s/!= 1/!= 4/' bug_test.go >new_test.go ;;
esac
echo '{"summary":"edited it"}'
`

// integrityPackage is a Go package with tests that a change of sum.go alone can keep from running.
var integrityPackage = map[string]string{
	"go.mod": "module example.com/sum\n\ngo 1.24\n",
	"sum.go": "package sum\n\n// Cases are tried.\nvar Cases = [][2]int{{1, 2}, {0, 3}}\n\nconst enabled = true\n\n" +
		"func Sum(a, b int) int { return a + b }\n\nfunc Sub(a, b int) int { return a + b - 1 }\n",
	"bug_test.go": "//go:build bug\n\npackage sum\n\nimport \"testing\"\n\nfunc TestBug(t *testing.T) {\n" +
		"\tif Sub(3, 2) != 1 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
	"sum_test.go": `package sum

import (
	"fmt"
	"testing"
)

func TestSmall(t *testing.T) {
	if Sum(1, 2) != 3 {
		t.Error("wrong")
	}
}

func TestCases(t *testing.T) {
	for _, c := range Cases {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			if Sum(c[0], c[1]) != 3 {
				t.Error("wrong")
			}
		})
	}
}

func TestEnabled(t *testing.T) {
	if !enabled {
		t.Skip()
	}
}
`,
}

// newIntegrity returns a pipeline over a Go package, which tasks labelled "feature" change in evolution mode.
func newIntegrity(t *testing.T, workers int) pipelineProject {
	t.Helper()
	p := newPipeline(t, workers, "[[agent.pipeline.modes]]", `mode = "evolution"`, `labels = ["feature"]`)
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.TrimSpace(string(out))
	p.edit(`test = "./check.sh"`, `test = "go test -json ./..."`)
	p.edit("env = {", fmt.Sprintf("env = { GOCACHE = %q,", cache))
	p.edit("read_write_paths = [", fmt.Sprintf("read_write_paths = [%q, ", cache))
	for name, text := range integrityPackage {
		write(t, filepath.Join(p.dir, name), text)
	}
	write(t, filepath.Join(p.dir, "model.sh"), integrityModel)
	p.git(p.dir, "add", "-A")
	p.git(p.dir, "commit", "-qm", "a package")
	return p
}

// baseRuns returns how often commands ran without the change.
func (p pipelineProject) baseRuns() int {
	return strings.Count(p.do("logs", "-n", "1000", "fixer-1"), "runs without the change")
}

// Tests that a change weakens end the attempt: what can be seen in the files, and what only shows when they run.
func TestPipelineWeakerTests(t *testing.T) {
	t.Parallel()
	p := newIntegrity(t, 2)
	p.up()
	type expected struct{ title, label, says string }
	all := map[string]expected{}
	for _, e := range []expected{
		{"delete code", "feature", "3 tests became 2, without TestSmall"},
		{"skip code", "feature", "1 skips became 2"},
		{"empty code", "feature", "2 assertions became 0"},
		{"case code", "", "1 test that ran before did not run: "},
		{"off code", "feature", "1 test that ran before skipped: example.com/sum.TestEnabled"},
		{"delete delete", "feature", "3 tests became 2"},
	} {
		all[p.add(e.title, "--pool", "fixer", "--label", e.label+",x")] = e
	}
	for id, e := range all {
		done := isAsked
		if e.label == "" { // it is merged
			done = isClosed
		}
		d := p.await(id, "done", done)
		first := d.Attempts[0].Outcome
		if len(d.Attempts) != 2 || first.Kind != outcome.Retryable ||
			first.Context.Obstacle.Kind != outcome.TestsWeakened ||
			!strings.Contains(first.Context.Obstacle.Description, e.says) {
			t.Errorf("%s: %d attempts, %+v, want %q", e.title, len(d.Attempts), first, e.says)
			continue
		}
		if prompt := p.prompt(id, "implement", 2); !strings.Contains(prompt, e.says) {
			t.Errorf("%s: the second attempt is not told:\n%s", e.title, prompt)
		}
		again := e.title == "delete delete"
		if q := d.Task.Question; q != nil && strings.Contains(q.Text, e.says) != again {
			t.Errorf("%s: the question is %q", e.title, q.Text)
		}
	}
	p.wantClean()
}

// Results are kept for the next attempts: a commit that was tested when it was merged is not tested again as a base.
func TestPipelineResultsAreKept(t *testing.T) {
	t.Parallel()
	p := newIntegrity(t, 1)
	p.up()
	for i := range 3 {
		id := p.add("code", "--pool", "fixer")
		d := p.await(id, "done", isClosed)
		checks := d.Attempts[0].Outcome.Evidence.Checks
		if d.Task.Outcome != task.Completed || len(checks) != 2 || !checks[1].Passed ||
			checks[1].Name != "6 results of tests before the change, 6 with it" {
			t.Errorf("%d: %+v, %+v", i, d.Task, checks)
		}
	}
	if n := p.baseRuns(); n != 1 {
		t.Errorf("the tests ran %d times without a change", n)
	}

	// A damaged file is no reason to fail.
	files, err := filepath.Glob(filepath.Join(p.dir, ".git", "coppice-tests", "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		write(t, name, "{")
	}
	p.await(p.add("code", "--pool", "fixer"), "done", isClosed)
	if n := p.baseRuns(); n != 2 {
		t.Errorf("the tests ran %d times without a change", n)
	}
	if out, err := os.ReadFile(filepath.Join(p.dir, "sum.go")); err != nil || strings.Count(string(out), "more") != 4 {
		t.Errorf("%s, %v", out, err)
	}
	p.wantClean()
}

// A task that names a check is done when that failed without the change, and passes with it.
func TestPipelineFixes(t *testing.T) {
	t.Parallel()
	p := newIntegrity(t, 2)
	p.up()
	const bug, added = "go test -tags bug -run TestBug .", "go test -tags bug -run TestNew ."
	add := func(title, fixes string, flags ...string) string {
		return p.add(append([]string{title, "--pool", "fixer", "--fixes", fixes}, flags...)...)
	}
	evolution := []string{"--label", "feature"}
	type expected struct {
		title    string
		kind     outcome.Kind // of the first attempt
		obstacle outcome.ObstacleKind
		says     string // its obstacle
		attempts int
	}
	all := map[string]expected{}
	for _, c := range []struct {
		expected
		fixes string
		flags []string
	}{
		{expected{"fix", outcome.Escalated, outcome.VerificationFailed, "passes without the change", 1}, "go version",
			nil},
		{expected{"code fix", outcome.Retryable, outcome.VerificationFailed, "TestBug . fails after 0 fixes", 2}, bug,
			evolution},
		{expected{"cheat fix", outcome.Retryable, outcome.TestsWeakened, "passed before the change", 2}, bug,
			evolution},
		{expected{"prove", outcome.Blocked, outcome.OtherObstacle, "review", 1}, added, evolution},
		{expected{"pretend prove", outcome.Retryable, outcome.VerificationFailed, "passed before the change", 2}, added,
			evolution},
		{expected{"fix", outcome.Escalated, outcome.VerificationFailed, "passes without the change", 1}, added,
			evolution},
	} {
		all[add(c.title, c.fixes, c.flags...)] = c.expected
	}
	for id, e := range all {
		d := p.await(id, "asked", isAsked)
		first := d.Attempts[0].Outcome
		if first.Kind != e.kind || first.Context.Obstacle.Kind != e.obstacle || len(d.Attempts) != e.attempts ||
			!strings.Contains(first.Context.Obstacle.Description, e.says) || p.merged(id) != 0 {
			t.Errorf("%s: %d attempts, %+v", e.title, len(d.Attempts), first)
		}
		last := d.Attempts[len(d.Attempts)-1].Outcome
		if e.kind != outcome.Escalated && (last.Evidence == nil || len(last.Evidence.Checks) != 4 ||
			!strings.HasPrefix(last.Evidence.Checks[0].Name, "fails without the change (exit code 1): go test")) {
			t.Errorf("%s: %+v", e.title, last.Evidence)
		}
		if strings.Contains(p.do("task", "show", id), "--fixes") != (e.kind == outcome.Escalated) {
			t.Errorf("%s: the question is %q", e.title, d.Task.Question.Text)
		}
	}
	id := add("fix", bug)
	if d := p.await(id, "done", isClosed); len(d.Attempts) != 1 || p.merged(id) != 1 ||
		len(d.Attempts[0].Outcome.Evidence.Checks) != 4 {
		t.Errorf("%+v", d.Attempts)
	}
	id = add("code code", bug) // is it repaired?
	if d := p.await(id, "asked", isAsked); !strings.Contains(d.Task.Question.Text, "on main without any change") {
		t.Errorf("%+v", d.Task.Question)
	}
	if _, err := os.Stat(filepath.Join(p.desk, "prompts", id+"-plan-1")); err == nil {
		t.Error("a model was called for what is repaired")
	}
	p.do("task", "edit", id, "--fixes", "")
	p.do("task", "approve", id)
	p.await(id, "done", isClosed)
	if out := p.git(p.dir, "for-each-ref", "refs/coppice/parked/"); strings.Contains(out, "proof") {
		t.Errorf("the worktrees of proofs are kept:\n%s", out)
	}
	p.wantClean()
}
