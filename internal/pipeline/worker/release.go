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
	"github.com/coppice-dev/coppice/internal/pullrequest"
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

// merger releases the changes that have passed: it merges them, or has people decide.
type merger struct {
	*job
	site     *site
	caller   *caller
	tester   *tester
	proposer *proposer // nil if changes are merged here
	kept     string    // the branch of a change that a person has approved
}

// open opens the remote of pull requests.
func (m *merger) open(ctx context.Context) error {
	settings := m.settings.PullRequest
	if settings == nil {
		return nil
	}
	remote, err := pullrequest.Open(ctx, m.settings.Repository, settings.Remote, m.env)
	if err != nil {
		return m.notProposed(err)
	}
	m.proposer = &proposer{job: m.job, site: m.site, remote: remote}
	return nil
}

// base returns where the attempt begins: at the branch, or at that of the remote if people merge there.
func (m *merger) base(ctx context.Context) (string, error) {
	if m.proposer == nil {
		return m.site.branch, nil
	}
	base, err := m.proposer.remote.Tip(ctx, m.site.branch)
	return base, m.notProposed(err)
}

// release commits the tree that was checked, and merges it, proposes it, or asks a person about it.
func (m *merger) release(
	ctx context.Context, c *change.Change, done attempt.Done, warnings []string,
) (*released, error) {
	s, propose := m.begin(pipeline.Release)
	t := m.facts.Task.Task
	r := &released{
		Task: t.ID, Title: t.Title, Attempt: m.facts.Number, Branch: m.site.branch, Base: m.site.tree.Commit,
		Totals: c.Totals(), Summary: cmp.Or(done.Summary, t.Title), Warnings: warnings, checks: m.checks,
	}
	commit, err := m.site.repo.Commit(ctx, release.Commit{
		Base: m.site.tree.Commit, Tree: c.Tree, Subject: cmp.Or(done.Subject, t.Title), Body: done.Summary, Task: t.ID,
		Attempt: m.facts.Number, At: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	r.Commit = commit
	switch {
	case m.proposer != nil:
		return nil, m.proposer.request(ctx, r)
	case propose:
		return r, m.propose(ctx, s, r)
	}
	if m.facts.Rules.Kind == change.Evolution {
		return nil, m.askReview(ctx, r)
	}
	return r, m.merge(ctx, r)
}

// reviewBranch is the branch of a change that a person reviews. It belongs to the person, so garbage collection leaves
// it alone.
func (m *merger) reviewBranch() string {
	if m.kept != "" {
		return m.kept
	}
	at := worktree.Attempt{Task: m.facts.Task.Task.ID, Number: m.facts.Number}
	return "review/" + path.Base(at.Branch())
}

// keep keeps a change on a branch of its own, and returns the end of an attempt that waits until a person has done
// something.
func (m *merger) keep(ctx context.Context, r *released, o outcome.Obstacle, ask func(branch string) string) error {
	branch := m.reviewBranch()
	if err := m.site.repo.Branch(ctx, branch, r.Commit); err != nil {
		return err
	}
	m.site.settle(ctx, r.Commit)
	evidence := m.evidence(r)
	evidence.Branch = branch
	return &attempt.End{
		Stage: pipeline.Release, Kind: outcome.Blocked, Obstacle: o, Evidence: evidence,
		Condition: &outcome.Condition{Kind: outcome.PersonHas, What: ask(branch)},
	}
}

// askReview returns the end of an attempt whose change a person reviews.
func (m *merger) askReview(ctx context.Context, r *released) error {
	notes := m.looks(r.Warnings)
	waits := outcome.Obstacle{Kind: outcome.OtherObstacle, Description: "a person has to review the change"}
	return m.keep(ctx, r, waits, func(branch string) string {
		text := fmt.Sprintf("Review the change on the branch %s: %s, %s added, %d deleted.", branch,
			plaintext.Plural(r.Totals.Files, "file"), plaintext.Plural(r.Totals.Added, "line"), r.Totals.Deleted)
		if len(notes) > 0 {
			text += " Look at: " + attempt.List(notes) + "."
		}
		return text + fmt.Sprintf(" Answer %q to merge it into %s; any other answer goes to another attempt.",
			attempt.Approve, m.site.branch)
	})
}

// merge merges a commit. If others have changed the branch meanwhile, the checks run again on the result.
func (m *merger) merge(ctx context.Context, r *released) error {
	test := m.settings.Of(pipeline.Test)
	all := m.tester.checking(test, len(test.Command) > 0)
	var got testRun
	merged, err := m.site.repo.Merge(ctx, release.Merge{
		Into: m.site.branch, Commit: r.Commit,
		Check: func(ctx context.Context, commit string) error {
			if len(all) == 0 {
				return nil
			}
			return m.site.elsewhere(ctx, "merge", commit, func(at *worktree.Worktree) error {
				runs, err := m.tester.runTests(ctx, all, at)
				if err != nil {
					return err
				}
				if got = runs[len(runs)-1]; got.Failed != "" {
					return errChecks
				}
				tree, err := m.site.treeOf(ctx, commit)
				if err == nil {
					m.tester.keepRun(tree, got) // the next attempt begins at it
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
		m.site.settle(ctx, r.Commit)
		r.Commit = merged.Commit
		m.note("merged into " + m.site.branch)
		return nil
	case errors.As(err, &conflict), errors.Is(err, release.ErrMoved):
		return attempt.Retry(pipeline.Release, outcome.MergeConflict, "%v", err)
	case errors.As(err, &dirty), errors.As(err, &busy):
		return m.keep(ctx, r, outcome.Obstacle{Kind: outcome.MergeConflict, Description: err.Error()},
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
func (m *merger) propose(ctx context.Context, s pipeline.Stage, r *released) (err error) {
	r.Branch = m.reviewBranch()
	if err := m.site.repo.Branch(ctx, r.Branch, r.Commit); err != nil {
		return err
	}
	got, err := m.caller.execute(ctx, pipeline.Release, s, m.site.tree, r.json())
	switch {
	case err != nil:
		return err
	case got.failed != nil:
		return attempt.Retry(pipeline.Release, outcome.OtherObstacle, "the command of the stage release has failed "+
			"(%s): %s", got.failed.Reason, attempt.Tail(got.output, 3000))
	}
	r.URL = attempt.URL(got.text)
	m.note(strings.TrimSpace("proposed " + r.URL))
	return nil
}

// before finishes what an earlier attempt has left: a change that was merged before its worker was killed, or that a
// person has approved. It returns nil if there is no such change.
func (m *merger) before(ctx context.Context) (*released, error) {
	if m.proposer != nil {
		return m.proposer.before(ctx)
	}
	t := m.facts.Task.Task
	done := 0 // the last attempt that has completed the task, before a person opened it again
	var last *outcome.Evidence
	for _, at := range m.facts.Task.Attempts {
		if at.Outcome.Kind == outcome.Completed {
			done = at.Number
		}
		if last = nil; m.assignment.isWorker(at.By) {
			last = at.Outcome.Evidence
		}
	}
	all, err := m.site.repo.Merged(ctx, m.site.branch, t.ID, t.CreatedAt.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	for _, earlier := range all {
		if earlier.Attempt < m.facts.Number && earlier.Attempt > done {
			m.note(fmt.Sprintf("attempt %d had merged its change before it was killed", earlier.Attempt))
			return &released{Task: t.ID, Title: t.Title, Attempt: earlier.Attempt, Branch: m.site.branch,
				Commit: earlier.Commit, Summary: t.Title}, nil
		}
	}
	if last == nil || !attempt.Approved(m.facts.Task) {
		return nil, nil
	}
	m.enter(pipeline.Release)
	r := &released{Task: t.ID, Title: t.Title, Attempt: m.facts.Number, Branch: m.site.branch, Commit: last.Commit,
		Base: last.Base, Summary: t.Title}
	r.Totals = change.Totals{Files: last.Files, Added: last.Insertions, Deleted: last.Deletions}
	r.checks = last.Checks
	m.kept = last.Branch
	m.note("a person has approved " + last.Branch)
	if err := m.merge(ctx, r); err != nil {
		return nil, err
	}
	if _, err := m.site.git(ctx, "update-ref", "-d", "refs/heads/"+last.Branch, last.Commit); err != nil {
		m.say("the branch %s stays: %v", last.Branch, err)
	}
	return r, nil
}
