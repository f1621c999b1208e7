package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pullrequest/ghtest"
	"github.com/coppice-dev/coppice/internal/task"
)

// requestProject is a project whose pipeline makes pull requests.
type requestProject struct {
	pipelineProject
	hub *ghtest.Hub
}

func newRequests(t *testing.T) requestProject {
	t.Helper()
	p := requestProject{newPipeline(t, 1, "pull_request = true"), nil}
	p.hub = ghtest.New(t, p.dir)
	p.env = append(p.env, "PATH="+p.hub.Bin+":"+os.Getenv("PATH"))
	p.up()
	return p
}

// awaitRequest waits until some attempts at a task have ended, and the task waits for a pull request. On a slow machine
// there are more attempts, which only look.
func (p requestProject) awaitRequest(id string, attempts, number int) task.Detail {
	p.t.Helper()
	d := p.await(id, "proposed", func(t task.Task) bool {
		return t.Claims >= attempts && t.Status == task.Deferred && t.Claim == nil
	})
	last := d.Attempts[len(d.Attempts)-1].Outcome
	if len(d.Attempts) < attempts || last.Kind != outcome.Blocked || last.Evidence == nil ||
		last.Evidence.PullRequest != ghtest.URL(number) || last.Evidence.Branch != "review/"+id ||
		last.Evidence.Commit != p.git(p.dir, "rev-parse", "review/"+id) ||
		last.Evidence.Commit != p.hub.Requests()[number-1].Oid || p.merged(id) != 0 {
		p.t.Errorf("%d attempts: %+v, %+v", len(d.Attempts), last, p.hub.Requests())
	}
	return d
}

// prompts returns the prompts of a stage of the task, one for each attempt that has made a change.
func (p requestProject) prompts(id, stage string) (all []string) {
	p.t.Helper()
	names, err := filepath.Glob(filepath.Join(p.desk, "prompts", id+"-"+stage+"-*"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// wantPlans checks how many attempts have made a change.
func (p requestProject) wantPlans(id string, n int) {
	p.t.Helper()
	if all := p.prompts(id, "plan"); len(all) != n {
		p.t.Errorf("%d attempts made a change, expected %d", len(all), n)
	}
}

// awaitPlans waits until some attempts have begun to make a change.
func (p requestProject) awaitPlans(id string, n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("change %d of %s", n, id), func() bool { return len(p.prompts(id, "plan")) == n })
}

// A task is completed when its pull request is merged, and not before. What a person says in between changes the same
// pull request.
func TestPipelinePullRequest(t *testing.T) {
	t.Parallel()
	p := newRequests(t)
	id := p.add("edit a", "--pool", "fixer")
	d := p.awaitRequest(id, 1, 1)
	if made := p.hub.Requests()[0]; made.Title != "Edit a" || !strings.HasPrefix(made.Body, "```text\nedited a\n") ||
		made.Base != "main" || made.Draft {
		t.Errorf("%+v", made)
	}
	if e := d.Attempts[0].Outcome.Evidence; e.Files != 1 || len(e.Checks) != 1 {
		t.Errorf("%+v", e)
	}
	p.do("task", "retry", id) // nothing has happened meanwhile
	p.awaitRequest(id, 2, 1)
	p.wantPlans(id, 1)

	p.do("task", "comment", id, "Say it in English.")
	p.do("task", "retry", id)
	p.awaitPlans(id, 2)
	p.awaitRequest(id, 3, 1)
	if all := p.prompts(id, "implement"); !strings.Contains(all[len(all)-1], "Say it in English.") {
		t.Errorf("%s", all)
	}
	p.do("task", "retry", id) // the comment counts once
	p.awaitRequest(id, 4, 1)
	p.wantPlans(id, 2)

	merged := p.hub.Merge(1)
	p.do("task", "retry", id)
	d = p.await(id, "done", isClosed)
	last := d.Attempts[len(d.Attempts)-1].Outcome
	if d.Task.Outcome != task.Completed || last.Evidence.Commit != merged || last.Evidence.Branch != "main" ||
		last.Evidence.PullRequest != ghtest.URL(1) || len(last.Evidence.Checks) != 1 || len(p.hub.Requests()) != 1 {
		t.Errorf("%+v, %+v", d.Task, last)
	}
	if out := p.git(p.dir, "branch", "--list", "review/*"); out != "" {
		t.Errorf("%s is left", out)
	}
	p.wantClean()

	next := p.add("edit a", "--pool", "fixer") // begins at what was merged there
	d = p.awaitRequest(next, 1, 2)
	if base := d.Attempts[0].Outcome.Evidence.Base; base != merged {
		t.Errorf("it began at %s, expected %s", base, merged)
	}
}

// A pull request that is closed without a merge leads to another change, whose prompts have the reason.
func TestPipelinePullRequestClosed(t *testing.T) {
	t.Parallel()
	p := newRequests(t)
	id := p.add("edit a", "--pool", "fixer")
	p.awaitRequest(id, 1, 1)
	p.hub.Close(1, "ann", "This breaks the build on Plan 9.")
	p.do("task", "retry", id)
	p.awaitPlans(id, 2)
	p.awaitRequest(id, 2, 2)
	for _, words := range []string{"| ann: This breaks the build on Plan 9.", "was closed without a merge"} {
		if all := p.prompts(id, "plan"); !strings.Contains(all[len(all)-1], words) {
			t.Errorf("%q is missing in:\n%s", words, all)
		}
	}
}

// A worker that is killed between its push and its report: the next attempt makes no second pull request, and no other
// change.
func TestPipelinePullRequestOnce(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			p := newRequests(t)
			p.hub.Hold(when)
			id := p.add("edit a", "--pool", "fixer")
			p.hub.AwaitHeld(when, func() {
				exectest.Signal(t, p.node(p.task(id).Claim.By).PID, syscall.SIGKILL)
				p.await(id, "ended", func(task task.Task) bool { return task.Claim == nil || task.Claims > 1 })
			})
			p.awaitRequest(id, 2, 1)
			p.wantPlans(id, 1)
			if all := p.hub.Requests(); len(all) != 1 {
				t.Errorf("%+v", all)
			}
		})
	}
}

// What a person has to do is asked, with the next step; what may pass is tried again. The change is kept.
func TestPipelinePullRequestFails(t *testing.T) {
	t.Parallel()
	p := newRequests(t)
	p.hub.Break("list", "To get started with GitHub CLI, please run:  gh auth login", 4)
	id := p.add("edit a", "--pool", "fixer")
	d := p.await(id, "asked", isAsked)
	if a := d.Attempts[0].Outcome; a.Kind != outcome.Escalated || a.Context.Obstacle.Kind != outcome.Authentication ||
		!strings.Contains(d.Task.Question.Text, "log in with gh auth login") || len(p.hub.Requests()) != 0 {
		t.Errorf("%+v, %+v", d.Task, a)
	}
	p.hub.Break("list", "", 0)
	p.do("task", "approve", id)
	p.awaitRequest(id, 2, 1)
	p.wantPlans(id, 1)

	p.hub.Break("ssh", "ssh: Could not resolve hostname github.example", 0)
	other := p.add("edit b", "--pool", "fixer")
	d = p.await(other, "tried", func(t task.Task) bool { return t.Claims > 0 && t.Claim == nil })
	if a := d.Attempts[0].Outcome; a.Kind != outcome.Retryable || a.Context.Obstacle.Kind != outcome.Network ||
		d.Task.FailedClaims != 0 {
		t.Errorf("%+v, %+v", d.Task, a)
	}
	p.hub.Break("ssh", "", 0)
	p.await(other, "proposed", func(task.Task) bool { return len(p.hub.Requests()) == 2 })

	// Someone else's commit on the branch is not overwritten.
	theirs := p.hub.Git("-c", "user.name=ann", "-c", "user.email=ann", "commit-tree", "-p", "review/"+id, "-m", "Mine",
		"review/"+id+"^{tree}")
	p.hub.Git("update-ref", "refs/heads/review/"+id, theirs)
	p.do("task", "comment", id, "Once more.")
	p.do("task", "retry", id)
	d = p.await(id, "asked", isAsked)
	if !strings.Contains(d.Task.Question.Text, "others have pushed") || p.hub.Requests()[0].Oid != theirs {
		t.Errorf("%+v, %+v", d.Task, p.hub.Requests())
	}
}
