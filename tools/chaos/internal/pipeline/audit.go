package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// audit holds tasks and repository against the backlog, after the daemon has ended.
type audit struct {
	trial   *batch
	coppice string
	tasks   []task.Detail
	killed  int // attempts that may have been ended by a kill
	sum     counts
	errs    []error
}

// counts has the numbers of a trial.
type counts struct{ tasks, attempts, killed, edits, parked int }

func (s counts) String() string {
	return fmt.Sprintf("%d tasks, %d attempts, %d of them ended by a kill; %d edits, %d parked", s.tasks, s.attempts,
		s.killed, s.edits, s.parked)
}

func (a *audit) fail(format string, args ...any) {
	if len(a.errs) < 30 {
		a.errs = append(a.errs, fmt.Errorf(format, args...))
	}
}

func (a *audit) check() error {
	a.checkTasks()
	if a.sum.killed > a.killed {
		a.fail("%d attempts were ended by a kill, and at most %d were killed", a.sum.killed, a.killed)
	}
	a.checkMerges()
	a.checkFiles()
	a.checkEdits()
	a.checkGarbage()
	return errors.Join(a.errs...)
}

// checkTasks looks at the end of each task, and at the way there.
func (a *audit) checkTasks() {
	left := map[string]bool{}
	for _, e := range a.trial.backlog {
		left[e.title] = true
		if e.kind() == "divide" {
			for _, part := range parts(e.title) {
				left[part] = true
			}
		}
	}
	a.sum.tasks = len(a.tasks)
	closed := map[string]task.Task{}
	for _, d := range a.tasks {
		if !left[d.Task.Title] {
			a.fail("%s %q is there twice, or was never added", d.Task.ID, d.Task.Title)
		}
		delete(left, d.Task.Title)
		closed[d.Task.Title] = d.Task
		a.checkTask(d)
	}
	for title := range left {
		a.fail("%q is missing", title)
	}
	for _, e := range a.trial.backlog {
		if e.after != "" && closed[e.title].ClosedAt.Before(closed[e.after].ClosedAt) {
			a.fail("%q was done before %q", e.title, e.after)
		}
	}
}

// checkTask holds a task and its attempts against its script.
func (a *audit) checkTask(d task.Detail) {
	kind := strings.Fields(d.Task.Title)[0]
	acts := script(kind)
	taught := ""                                           // by an attempt that has not completed the task
	endless := acts[len(acts)-1].kind == outcome.Retryable // it is parked at last
	switch {
	case endless && d.Task.Status != task.Parked:
		a.fail("%s %q is %s, expected parked", d.Task.ID, d.Task.Title, d.Task.Status)
	case !endless && (d.Task.Status != task.Closed || d.Task.Outcome != task.Completed):
		a.fail("%s %q is %s %s, expected completed: %+v", d.Task.ID, d.Task.Title, d.Task.Status, d.Task.Outcome,
			d.Task.Question)
	}
	for _, at := range d.Attempts {
		a.sum.attempts++
		r := at.Outcome
		if r.Kind != outcome.Completed && r.Context == nil {
			a.fail("attempt %d at %q has no context", at.Number, d.Task.Title)
			continue
		}
		if at.ReportedBy == "controller" || killedStage(r) {
			a.sum.killed++
			continue
		}
		if kind == "clash" && len(acts) > 1 && r.Kind == outcome.Completed {
			acts = acts[1:] // it was merged before the other one
		}
		if len(acts) == 0 || r.Kind != acts[0].kind ||
			r.Context != nil && r.Context.Obstacle.Kind != acts[0].obstacle {
			a.fail("attempt %d at %q has ended as %s", at.Number, d.Task.Title, r)
			continue
		}
		if taught != "" {
			a.checkPrompt(d, at.Number, taught)
		}
		if !endless {
			taught, acts = acts[0].teaches, acts[1:]
		}
	}
	if !endless && len(acts) > 0 {
		a.fail("%q has not ended as %v", d.Task.Title, acts)
	}
}

// killedStage reports whether a worker says that the command of a stage was killed.
func killedStage(r outcome.Report) bool {
	return r.Context != nil && strings.Contains(r.Context.Obstacle.String(), "SIGKILL")
}

// checkPrompt looks at the prompt of an attempt: it tells what an earlier one has taught.
func (a *audit) checkPrompt(d task.Detail, number int, taught string) {
	name := filepath.Join(a.trial.desk, "prompts", fmt.Sprintf("%s-plan-%d", d.Task.ID, number))
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return // it has found the merge of a killed attempt
	}
	if err != nil || !bytes.Contains(text, []byte(taught)) {
		a.fail("%s of %q does not tell that %q: %v", name, d.Task.Title, taught, err)
	}
}

// checkMerges counts the commits of each task.
func (a *audit) checkMerges() {
	out, err := a.trial.git("log", "--format=%(trailers:key=Coppice-Task,valueonly)", "main")
	if err != nil {
		a.fail("%v", err)
	}
	merged := a.trial.leaves()
	for _, d := range a.tasks {
		n := len(regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(d.Task.ID)+`$`).FindAllString(out, -1))
		if want := map[bool]int{true: 1}[merged[d.Task.Title]]; n != want {
			a.fail("%s %q was merged %d times, expected %d", d.Task.ID, d.Task.Title, n, want)
		}
	}
}

// checkFiles looks at the branch, at the work tree that has it checked out, and at the repository as a whole.
func (a *audit) checkFiles() {
	for name, want := range a.trial.lastFiles() {
		got, err := os.ReadFile(filepath.Join(a.trial.repo, name))
		if err != nil || string(got) != want {
			a.fail("%s is %q, expected %q: %v", name, got, want, err)
		}
	}
	if out, err := a.trial.git("status", "--porcelain"); err != nil || out != "" {
		a.fail("the work tree is not that of main: %s, %v", out, err)
	}
	if out, err := a.trial.git("fsck", "--full", "--strict", "--no-dangling"); err != nil || out != "" {
		a.fail("%s, %v", out, err)
	}
	err := filepath.WalkDir(filepath.Join(a.trial.repo, ".git"), func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.Name() == "coppice-release" {
			return fs.SkipDir // lock files that stay
		}
		if strings.HasSuffix(path, ".lock") && !strings.HasPrefix(e.Name(), "coppice-") {
			a.fail("%s is left", path)
		}
		return err
	})
	if err != nil {
		a.fail("%v", err)
	}
}

// checkEdits looks for each edit that a stage has made: it is merged, parked, or in its worktree.
func (a *audit) checkEdits() {
	text, err := os.ReadFile(filepath.Join(a.trial.desk, editsName))
	if err != nil {
		a.fail("%v", err)
	}
	log, err := a.trial.git("log", "--format=%(trailers:key=Coppice-Task,valueonly,separator=)-"+
		"%(trailers:key=Coppice-Attempt,valueonly,separator=)", "main")
	if err != nil {
		a.fail("%v", err)
	}
	merged := strings.Split(log, "\n")
	last := map[string]edit{} // what a file was in an attempt, if a stage has edited it twice
	for line := range bytes.Lines(text) {
		var e edit
		if err := json.Unmarshal(line, &e); err != nil {
			a.fail("%s: %q: %v", editsName, line, err)
			continue
		}
		last[e.Task+"-"+e.Attempt+"/"+e.File] = e
	}
	for _, e := range last {
		a.sum.edits++
		name := e.Task + "-" + e.Attempt
		if slices.Contains(merged, name) {
			continue
		}
		refs, err := a.trial.git("for-each-ref", "--format=%(refname)", "refs/coppice/parked/"+name,
			"refs/coppice/parked/"+name+".*")
		if err != nil {
			a.fail("%v", err)
		}
		found := false
		for ref := range strings.FieldsSeq(refs) {
			got, err := a.trial.git("show", ref+":"+e.File)
			found = found || err == nil && got+"\n" == e.Text
		}
		if found {
			a.sum.parked++
		}
		left, _ := os.ReadFile(filepath.Join(a.trial.repo, ".coppice", "worktrees", name, e.File))
		if !found && string(left) != e.Text {
			a.fail("the edit of %s by %s is lost: it was %q; parked: %s", e.File, name, e.Text, refs)
		}
	}
}

// checkGarbage collects what is no longer needed: worktrees of killed attempts, and then what was parked of them and is
// merged. Then there is no trace of an attempt but what was parked and is not merged.
func (a *audit) checkGarbage() {
	for _, args := range [][]string{{"gc"}, {"gc"}, {"gc", "--dry-run"}} {
		cmd := exec.Command(a.coppice, args...)
		cmd.Dir = a.trial.repo
		out, err := cmd.CombinedOutput()
		if err != nil {
			a.fail("coppice %v: %v: %s", args, err, out)
		}
		if args[len(args)-1] == "--dry-run" && !strings.Contains(string(out), "othing") {
			a.fail("coppice gc has left: %s", out)
		}
	}
	if out, err := a.trial.git("worktree", "list"); err != nil || strings.Count(out, "\n") > 0 {
		a.fail("worktrees are left: %s, %v", out, err)
	}
	if out, err := a.trial.git("for-each-ref", "refs/heads/coppice"); err != nil || out != "" {
		a.fail("branches are left: %s, %v", out, err)
	}
	left, err := filepath.Glob(filepath.Join(a.trial.repo, ".coppice", "worktrees", "*"))
	left = slices.DeleteFunc(left, func(name string) bool { return filepath.Base(name) == "repo.lock" })
	if err != nil || len(left) > 0 {
		a.fail("the directory of the worktrees has %v, %v", left, err)
	}
}
