package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/pullrequest"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// proposer lets people decide about changes in pull requests.
type proposer struct {
	*job
	site   *site
	remote *pullrequest.Remote
}

// requestBranch is the branch of the pull requests of the task, here and in the remote. All attempts have the same, so
// that a change after a review is in the same pull request. It is at a commit before the commit is pushed, so a worker
// that is killed at any moment leaves what its successor needs to go on.
func (p *proposer) requestBranch() string {
	first := worktree.Attempt{Task: p.facts.Task.Task.ID, Number: 1}
	return "review/" + strings.TrimSuffix(path.Base(first.Branch()), "-1")
}

// request makes a change the content of a pull request, and returns the end of an attempt that waits until that is
// merged.
func (p *proposer) request(ctx context.Context, r *released) error {
	before, err := p.site.repo.Tip(ctx, p.requestBranch(), r.Task)
	if err != nil {
		return err
	}
	if err := p.site.repo.Branch(ctx, p.requestBranch(), r.Commit); err != nil {
		question := fmt.Sprintf("The change cannot be proposed: %v. When that is no longer so, answer %q.", err,
			attempt.Approve)
		return attempt.Escalate(pipeline.Release, outcome.MergeConflict, question, "%v", err)
	}
	p.site.settle(ctx, r.Commit)
	known := p.proposals()
	if before != nil {
		known = append(known, outcome.Evidence{Commit: before.Commit})
	}
	return p.publish(ctx, p.evidence(r), known, p.looks(r.Warnings))
}

// publish proposes a commit, given the earlier ones and what a reviewer should look at, and returns the end of the
// attempt.
func (p *proposer) publish(ctx context.Context, e *outcome.Evidence, earlier []outcome.Evidence, looks []string) error {
	title, body, err := p.site.repo.Message(ctx, e.Commit)
	if err != nil {
		return err
	}
	proposal := pullrequest.Proposal{Branch: p.requestBranch(), Base: p.site.branch, Commit: e.Commit, Title: title,
		Body: attempt.RequestBody(body, looks), Draft: p.settings.PullRequest.Draft}
	for _, k := range earlier {
		proposal.Known = append(proposal.Known, k.Commit)
	}
	q, err := p.remote.Propose(ctx, proposal)
	if err != nil {
		return p.notProposed(err)
	}
	e.PullRequest = q.URL
	p.note("proposed " + q.URL)
	return p.waits(e, 0)
}

// waits returns the end of an attempt whose pull request is open since some time.
func (p *proposer) waits(e *outcome.Evidence, since time.Duration) error {
	e.Branch = p.requestBranch()
	return &attempt.End{
		Stage: pipeline.Release, Kind: outcome.Blocked, Evidence: e,
		Obstacle: outcome.Obstacle{Kind: outcome.OtherObstacle,
			Description: fmt.Sprintf("the pull request %s is not merged yet", e.PullRequest)},
		Condition: &outcome.Condition{Kind: outcome.TimeComes,
			What: time.Now().Add(attempt.LookAgain(since)).UTC().Format(time.RFC3339)},
	}
}

// proposals returns the evidence of the pull requests of the task, the latest last. What was there before the task was
// completed and opened again does not count.
func (p *proposer) proposals() (all []outcome.Evidence) {
	for _, at := range p.facts.Task.Attempts {
		switch e := at.Outcome.Evidence; {
		case at.Outcome.Kind == outcome.Completed:
			all = nil
		case e != nil && e.PullRequest != "" && p.assignment.isWorker(at.By):
			all = append(all, *e)
		}
	}
	return all
}

// before goes on with the change that an earlier attempt has proposed, or was about to propose when its worker
// was killed. It returns nil if there is none, or if people want another one.
func (p *proposer) before(ctx context.Context) (*released, error) {
	e, made, err := p.lastRequest(ctx)
	if e == nil || err != nil {
		return nil, err
	}
	p.stage = pipeline.Release
	all, err := p.remote.Find(ctx, p.requestBranch(), p.site.branch)
	if err != nil {
		return nil, p.notProposed(err)
	}
	var mine *pullrequest.Request
	for i, q := range all {
		if q.URL == e.PullRequest || q.Head == e.Commit {
			mine = &all[i]
			break
		}
	}
	feedback := attempt.Feedback(p.facts.Task, made.BeganAt)
	switch {
	case mine != nil && mine.State == pullrequest.IsMerged:
		return p.wasMerged(ctx, *e, *mine), nil
	case mine != nil && mine.State == pullrequest.IsClosed:
		return nil, p.wasClosed(ctx, mine.URL)
	case feedback:
		p.note("people want another change than that of attempt " + fmt.Sprint(made.Number))
		return nil, nil
	case mine == nil || e.PullRequest == "":
		p.note(fmt.Sprintf("attempt %d had made the change before it ended", made.Number))
		return nil, p.publish(ctx, e, p.proposals(), nil)
	}
	return nil, p.waits(e, time.Since(made.EndedAt))
}

// lastRequest returns the change that was proposed last, or was to be, and the attempt that has made it; nil if there
// is none. A change that was not proposed yet has no pull request.
func (p *proposer) lastRequest(ctx context.Context) (*outcome.Evidence, *task.Attempt, error) {
	t := p.facts.Task.Task
	tip, err := p.site.repo.Tip(ctx, p.requestBranch(), t.ID)
	if err != nil {
		return nil, nil, err
	}
	var last *outcome.Evidence
	if all := p.proposals(); len(all) > 0 {
		last = &all[len(all)-1]
	}
	var made *task.Attempt
	for i, at := range p.facts.Task.Attempts {
		e := at.Outcome.Evidence
		switch {
		case at.Outcome.Kind == outcome.Completed:
			made = nil
		case tip != nil && at.Number == tip.Attempt && (last == nil || last.Commit != tip.Commit):
			made, last = &p.facts.Task.Attempts[i], &outcome.Evidence{Commit: tip.Commit}
		case made == nil && last != nil && e != nil && e.PullRequest == last.PullRequest && e.Commit == last.Commit:
			made = &p.facts.Task.Attempts[i] // the first with it
		}
	}
	if made == nil {
		return nil, nil, nil
	}
	return last, made, nil
}

// wasMerged returns the change of a pull request that is merged.
func (p *proposer) wasMerged(ctx context.Context, e outcome.Evidence, q pullrequest.Request) *released {
	t := p.facts.Task.Task
	p.note("merged: " + q.URL)
	if _, err := p.site.git(ctx, "update-ref", "-d", "refs/heads/"+p.requestBranch(), e.Commit); err != nil {
		p.say("the branch %s stays: %v", p.requestBranch(), err)
	}
	r := &released{Task: t.ID, Title: t.Title, Attempt: p.facts.Number, Branch: p.site.branch, Base: e.Base, URL: q.URL,
		Commit: cmp.Or(q.Merge, q.Head), Summary: t.Title, checks: e.Checks}
	r.Totals.Files, r.Totals.Added, r.Totals.Deleted = e.Files, e.Insertions, e.Deletions
	return r
}

// wasClosed makes what people have said of a pull request that they have closed part of the prompts.
func (p *proposer) wasClosed(ctx context.Context, address string) error {
	all, err := p.remote.Remarks(ctx, address)
	if err != nil {
		return p.notProposed(err)
	}
	p.note(address + " was closed without a merge")
	said := []task.Comment{{By: "reviewer", Text: "The pull request with the last change, " + address +
		", was closed without a merge. Do not propose the same change again."}}
	for _, r := range all {
		said = append(said, task.Comment{By: cmp.Or(r.By, "reviewer"), At: r.At, Text: r.Text})
	}
	p.facts.Task.Comments = append(p.facts.Task.Comments, said...)
	return nil
}

// notProposed returns the end of an attempt at which git or gh has failed.
func (j *job) notProposed(err error) error {
	var failed *pullrequest.Error
	if !errors.As(err, &failed) {
		return err
	}
	kind := outcome.OtherObstacle
	switch failed.Kind {
	case pullrequest.Network:
		return attempt.Retry(j.stage, outcome.Network, "%v", err)
	case pullrequest.Unknown:
		return attempt.Retry(j.stage, kind, "%v", err)
	case pullrequest.Setup:
		kind = outcome.Configuration
	case pullrequest.Login:
		kind = outcome.Authentication
	case pullrequest.Rejected:
		kind = outcome.MergeConflict
	}
	return attempt.Escalate(j.stage, kind, fmt.Sprintf("The pipeline cannot use pull requests: %v. "+
		"When that is done, answer %q.", err, attempt.Approve), "%v", err)
}
