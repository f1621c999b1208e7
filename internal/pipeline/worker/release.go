package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/release"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// released is a change that was released. It is the input of Archive, as JSON.
type released struct {
	Task     string        `json:"task"`
	Title    string        `json:"title"`
	Attempt  int           `json:"attempt"`
	Branch   string        `json:"branch"` // that has it, or the branch of its pull request
	Commit   string        `json:"commit"`
	Base     string        `json:"base"`
	URL      string        `json:"url,omitempty"` // of its pull request
	Totals   change.Totals `json:"totals"`
	Summary  string        `json:"summary"`
	Warnings []string      `json:"warnings,omitempty"` // of the review
	checks   []outcome.Check
}

func (r *released) json() string {
	text, _ := json.Marshal(r)
	return string(text) + "\n"
}

// release commits the tree that was checked, and merges it, proposes it, or asks a person about it.
func (a *run) release(ctx context.Context, c *change.Change, done attempt.Done, warnings []string) (*released, error) {
	s, propose := a.begin(pipeline.Release)
	t := a.facts.Task.Task
	r := &released{
		Task: t.ID, Title: t.Title, Attempt: a.facts.Number, Branch: a.branch, Base: a.tree.Commit, Totals: c.Totals(),
		Summary: cmp.Or(done.Summary, t.Title), Warnings: warnings, checks: a.checks,
	}
	commit, err := a.repo.Commit(ctx, release.Commit{
		Base: a.tree.Commit, Tree: c.Tree, Subject: cmp.Or(done.Subject, t.Title), Body: done.Summary, Task: t.ID,
		Attempt: a.facts.Number, At: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	r.Commit = commit
	switch {
	case a.remote != nil:
		return nil, a.request(ctx, r)
	case propose:
		return r, a.propose(ctx, s, r)
	}
	if a.facts.Rules.Kind == change.Evolution {
		return nil, a.askReview(ctx, r)
	}
	return r, a.merge(ctx, r)
}

// reviewBranch is the branch of a change that a person reviews. It belongs to the person, so garbage collection leaves
// it alone.
func (a *run) reviewBranch() string {
	if a.kept != "" {
		return a.kept
	}
	at := worktree.Attempt{Task: a.facts.Task.Task.ID, Number: a.facts.Number}
	return "review/" + path.Base(at.Branch())
}

// keep keeps a change on a branch of its own, and returns the end of an attempt that waits until a person has done
// something.
func (a *run) keep(ctx context.Context, r *released, o outcome.Obstacle, ask func(branch string) string) error {
	branch := a.reviewBranch()
	if err := a.repo.Branch(ctx, branch, r.Commit); err != nil {
		return err
	}
	a.settle(ctx, r.Commit)
	evidence := a.evidence(r)
	evidence.Branch = branch
	return &attempt.End{
		Stage: pipeline.Release, Kind: outcome.Blocked, Obstacle: o, Evidence: evidence,
		Condition: &outcome.Condition{Kind: outcome.PersonHas, What: ask(branch)},
	}
}

// askReview returns the end of an attempt whose change a person reviews.
func (a *run) askReview(ctx context.Context, r *released) error {
	notes := a.looks(r.Warnings)
	waits := outcome.Obstacle{Kind: outcome.OtherObstacle, Description: "a person has to review the change"}
	return a.keep(ctx, r, waits, func(branch string) string {
		text := fmt.Sprintf("Review the change on the branch %s: %s, %s added, %d deleted.", branch,
			plaintext.Plural(r.Totals.Files, "file"), plaintext.Plural(r.Totals.Added, "line"), r.Totals.Deleted)
		if len(notes) > 0 {
			text += " Look at: " + attempt.List(notes) + "."
		}
		return text + fmt.Sprintf(" Answer %q to merge it into %s; any other answer goes to another attempt.",
			attempt.Approve, a.branch)
	})
}

// looks returns what a person should look at, given the warnings of the review.
func (a *run) looks(warnings []string) (notes []string) {
	for _, f := range a.reviews {
		notes = append(notes, fmt.Sprintf("%s: %s", f.Rule, f))
	}
	for _, w := range warnings {
		notes = append(notes, "security: "+w)
	}
	return notes
}

// settle makes the worktree of the attempt, if there is one, that of a commit that has its content and is kept by a
// branch. Then nothing is lost with it. If that fails the content is kept once more.
func (a *run) settle(ctx context.Context, commit string) {
	if a.tree == nil {
		return
	}
	_, err := a.git(ctx, "update-ref", "refs/heads/"+a.tree.Branch(), commit)
	if err == nil {
		_, err = a.git(ctx, "-C", a.tree.Path, "read-tree", commit)
	}
	if err != nil {
		a.say("%v", err)
	}
}

// merge merges a commit. If others have changed the branch meanwhile, the checks run again on the result.
func (a *run) merge(ctx context.Context, r *released) error {
	test := a.settings.Of(pipeline.Test)
	all := a.checking(test, len(test.Command) > 0)
	var got testRun
	merged, err := a.repo.Merge(ctx, release.Merge{
		Into: a.branch, Commit: r.Commit,
		Check: func(ctx context.Context, commit string) error {
			if len(all) == 0 {
				return nil
			}
			return a.elsewhere(ctx, "merge", commit, func(dir string) error {
				runs, err := a.runTests(ctx, all, dir)
				if err != nil {
					return err
				}
				if got = runs[len(runs)-1]; got.Failed != "" {
					return errChecks
				}
				tree, err := a.treeOf(ctx, commit)
				if err == nil {
					a.keepRun(tree, got) // the next attempt begins at it
				}
				return err
			})
		},
	})
	var conflict *release.ConflictError
	var dirty *release.DirtyError
	var busy *release.BusyError
	switch {
	case err == nil:
		a.settle(ctx, r.Commit)
		r.Commit = merged.Commit
		a.note("merged into " + a.branch)
		return nil
	case errors.As(err, &conflict), errors.Is(err, release.ErrMoved):
		return attempt.Retry(pipeline.Release, outcome.MergeConflict, "%v", err)
	case errors.As(err, &dirty), errors.As(err, &busy):
		return a.keep(ctx, r, outcome.Obstacle{Kind: outcome.MergeConflict, Description: err.Error()},
			func(branch string) string {
				return fmt.Sprintf("The change on the branch %s cannot be merged: %v. When that is no longer so, "+
					"answer %q.", branch, err, attempt.Approve)
			})
	case errors.Is(err, errChecks):
		return attempt.Retry(pipeline.Release, outcome.VerificationFailed, "%s fails after the merge with what others "+
			"have changed (%s): %s", strings.Join(got.argv, " "), got.Failed, attempt.Tail(got.output, 3000))
	}
	return err
}

var errChecks = errors.New("the checks fail")

// propose makes a pull request by the command of the stage.
func (a *run) propose(ctx context.Context, s pipeline.Stage, r *released) (err error) {
	r.Branch = a.reviewBranch()
	if err := a.repo.Branch(ctx, r.Branch, r.Commit); err != nil {
		return err
	}
	got, err := a.execute(ctx, pipeline.Release, s, a.tree.Path, r.json())
	switch {
	case err != nil:
		return err
	case got.failed != nil:
		return attempt.Retry(pipeline.Release, outcome.OtherObstacle, "the command of the stage release has failed "+
			"(%s): %s", got.failed.Reason, attempt.Tail(got.output, 3000))
	}
	r.URL = attempt.URL(got.text)
	a.note(strings.TrimSpace("proposed " + r.URL))
	return nil
}

// before finishes what an earlier attempt has left: a change that was merged before its worker was killed, or that a
// person has approved. It returns nil if there is no such change.
func (a *run) before(ctx context.Context) (*released, error) {
	if a.remote != nil {
		return a.beforeRequest(ctx)
	}
	t := a.facts.Task.Task
	done := 0 // the last attempt that has completed the task, before a person opened it again
	var last *outcome.Evidence
	for _, at := range a.facts.Task.Attempts {
		if at.Outcome.Kind == outcome.Completed {
			done = at.Number
		}
		if last = nil; a.assignment.isWorker(at.By) {
			last = at.Outcome.Evidence
		}
	}
	all, err := a.repo.Merged(ctx, a.branch, t.ID, t.CreatedAt.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Attempt < a.facts.Number && m.Attempt > done {
			a.note(fmt.Sprintf("attempt %d had merged its change before it was killed", m.Attempt))
			return &released{Task: t.ID, Title: t.Title, Attempt: m.Attempt, Branch: a.branch, Commit: m.Commit,
				Summary: t.Title}, nil
		}
	}
	if last == nil || !attempt.Approved(a.facts.Task) {
		return nil, nil
	}
	a.enter(pipeline.Release)
	r := &released{Task: t.ID, Title: t.Title, Attempt: a.facts.Number, Branch: a.branch, Commit: last.Commit,
		Base: last.Base, Summary: t.Title}
	r.Totals = change.Totals{Files: last.Files, Added: last.Insertions, Deleted: last.Deletions}
	r.checks = last.Checks
	a.kept = last.Branch
	a.note("a person has approved " + last.Branch)
	if err := a.merge(ctx, r); err != nil {
		return nil, err
	}
	if _, err := a.git(ctx, "update-ref", "-d", "refs/heads/"+last.Branch, last.Commit); err != nil {
		a.say("the branch %s stays: %v", last.Branch, err)
	}
	return r, nil
}

// elsewhere calls do in a worktree of its own, at a commit.
func (a *run) elsewhere(ctx context.Context, name, commit string, do func(dir string) error) error {
	at := worktree.Attempt{Task: a.facts.Task.Task.ID + " " + name, Number: a.facts.Number, Base: commit}
	// A killed worker may have left it.
	if _, err := a.trees.Remove(ctx, at); err != nil {
		return fmt.Errorf("%s cannot be removed: %w", at, err)
	}
	t, err := a.trees.Create(ctx, at)
	if err != nil {
		return err
	}
	defer func() {
		if t.Release() == nil && ctx.Err() == nil {
			a.remove(ctx, at)
		}
	}()
	return a.withPorts(t.Ports, func() error { return do(t.Path) })
}

// completed returns the outcome of an attempt that has completed its task.
func (a *run) completed(r *released) outcome.Report {
	return outcome.Report{
		Kind: outcome.Completed, Summary: r.Summary, Evidence: a.evidence(r),
	}
}

// evidence returns what shows that a change is there.
func (a *run) evidence(r *released) *outcome.Evidence {
	return &outcome.Evidence{
		Branch: r.Branch, Commit: r.Commit, Base: r.Base, Files: r.Totals.Files, Insertions: r.Totals.Added,
		Deletions: r.Totals.Deleted, Checks: r.checks, PullRequest: r.URL,
	}
}
