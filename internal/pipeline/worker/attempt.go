package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// run is an attempt while it is made.
type run struct {
	*job
	site   *site
	caller *caller
	tester *tester
	merger *merger
}

// attempt makes an attempt and returns its outcome. The error is an accountError, or the worker cannot work.
func (w *worker) attempt(ctx context.Context, d task.Detail, mine Assignment) (outcome.Report, error) {
	j := &job{worker: w, assignment: mine, settings: mine.Settings}
	j.facts.Task, j.facts.Number = d, d.Task.Claims
	now := time.Now()
	j.progress = progress.Progress{
		Incarnation: w.incarnation, Task: d.Task.ID, Attempt: d.Task.Claims, BeganAt: now, Since: now,
	}
	j.announce(j.progress)
	done, err := newRun(j).make(ctx)
	if ctx.Err() != nil {
		return outcome.Report{}, context.Cause(ctx)
	}
	var end *attempt.End
	switch {
	case err == nil:
		return j.completed(done), nil
	case errors.As(err, &end):
		r := j.ended(end)
		if _, err := outcome.New(r); err != nil { // what a model has said cannot be an outcome
			r = j.ended(attempt.Retry(end.Stage, outcome.SchemaMismatch, "%v", err))
		}
		return r, nil
	}
	return outcome.Report{}, err
}

// newRun connects the parts that make an attempt.
func newRun(j *job) *run {
	s := &site{job: j}
	c := &caller{job: j, site: s}
	t := &tester{job: j, site: s, caller: c}
	return &run{job: j, site: s, caller: c, tester: t, merger: &merger{job: j, site: s, caller: c, tester: t}}
}

// make prepares the attempt, and takes the task through the stages.
func (a *run) make(ctx context.Context) (*released, error) {
	if err := a.makeDirs(); err != nil {
		return nil, err
	}
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	if err := landlock.Supported(); err != nil && a.settings.Writable == nil {
		a.say("stages may write wherever you can: %v", err)
	}
	if err := a.setMode(ctx); err != nil {
		return nil, err
	}
	if err := a.tester.readProof(); err != nil {
		return nil, err
	}
	if done, err := a.merger.before(ctx); done != nil || err != nil {
		return done, err
	}
	base, err := a.merger.base(ctx)
	if err != nil {
		return nil, err
	}
	if a.facts.Like, err = a.likes(ctx, a.facts.Task.Task); err != nil {
		return nil, err
	}
	// A damaged worktree is no reason to blame a stage: all of them begin again, once.
	for again := true; ; again = false {
		done, err := a.site.inTree(ctx, base, a.through)
		if again && errors.Is(err, worktree.ErrCorrupt) && ctx.Err() == nil {
			a.note("the worktree was damaged; all stages began again")
			a.say("%v; all stages begin again", err)
			a.checks, a.reviews = nil, nil
			continue
		}
		if errors.Is(err, worktree.ErrCorrupt) {
			err = attempt.Retry(a.stage, outcome.OtherObstacle, "the worktree was damaged twice: %v", err)
		}
		return done, err
	}
}

// open opens the repository, and the remote of its pull requests.
func (a *run) open(ctx context.Context) error {
	err := a.site.open(ctx, setUp{a.caller})
	if err == nil {
		err = a.tester.open(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return attempt.Escalate(pipeline.Plan, outcome.Configuration,
			fmt.Sprintf("The pipeline cannot use its repository %s: %v", a.settings.Repository, err), "%v", err)
	}
	if err != nil {
		return err
	}
	return a.merger.open(ctx)
}

// setMode chooses the mode of the task.
func (a *run) setMode(ctx context.Context) error {
	t := a.facts.Task.Task
	rules, err := kindRules(a.settings.Modes)
	if err != nil {
		return err
	}
	kind, why := change.Choose(rules, change.Kind(a.settings.Mode), a.taskFacts())
	a.facts.Rules, err = change.NewRules(kind, a.settings.Protected, a.settings.Tests, a.settings.Validation)
	if err != nil {
		return err
	}
	depth, err := a.depth(ctx, t)
	if err != nil {
		return err
	}
	// The check of a task is that of the whole: without it the last subtask would complete the task.
	a.facts.MayDivide = depth < maxDepth && t.Fixes == ""
	a.note("mode " + string(kind))
	a.say("%s (attempt %d): %s mode: %s", t.ID, a.facts.Number, kind, why)
	return nil
}
