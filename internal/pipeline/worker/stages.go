package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/answer"
	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/integrity"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
)

// through takes the task through the stages, in the worktree of the attempt. The first stage that fails ends it.
func (a *run) through(ctx context.Context) (*released, error) {
	if err := a.tester.failsBefore(ctx); err != nil {
		return nil, err
	}
	plan, err := a.plan(ctx)
	if err != nil {
		return nil, err
	}
	done, err := a.implement(ctx, plan)
	if err != nil {
		return nil, err
	}
	c, err := a.test(ctx, &done)
	if err != nil {
		return nil, err
	}
	warnings, err := a.review(ctx, c)
	if err != nil {
		return nil, err
	}
	r, err := a.merger.release(ctx, c, done, warnings)
	if err != nil {
		return nil, err
	}
	a.archive(ctx, r)
	return r, nil
}

// plan asks for a plan, and checks it. Without the stage there is one step: the task.
func (a *run) plan(ctx context.Context) (attempt.Answer, error) {
	s, ok := a.begin(pipeline.Plan)
	if !ok {
		return attempt.Answer{}, nil
	}
	text, err := a.ask(ctx, pipeline.Plan, s, attempt.PlanPrompt(a.facts))
	if err != nil {
		return attempt.Answer{}, err
	}
	plan, err := attempt.Read[attempt.Answer](text)
	if err != nil {
		return plan, attempt.Retry(pipeline.Plan, outcome.SchemaMismatch, "%v", err)
	}
	a.learnt = a.learnt.With(plan.Report)
	if end := attempt.Learned(pipeline.Plan, plan.Report, a.facts.Rules.MaxFiles); end != nil {
		return plan, end
	}
	if len(plan.Subtasks) > 0 && a.facts.MayDivide {
		return plan, attempt.Divided(plan)
	}
	var steps []change.Step
	for _, s := range plan.Steps {
		steps = append(steps, change.Step{Name: s.Name, Files: s.Files})
	}
	if end := attempt.Refused(pipeline.Plan, change.CheckPlan(nil, steps, a.facts.Rules), a.facts.Rules); end != nil {
		return plan, end
	}
	if c, err := change.Read(ctx, a.site.tree.Path, a.site.tree.Commit); err != nil {
		return plan, err
	} else if len(c.Files) > 0 {
		return plan, attempt.Retry(pipeline.Plan, outcome.GuardDenied, "it has changed files: %s",
			change.Quote(c.Files[0].Path))
	}
	a.note("plan: " + plan.Outline())
	return plan, nil
}

// implement makes the change: one call for each step of the plan.
func (a *run) implement(ctx context.Context, plan attempt.Answer) (done attempt.Done, err error) {
	s, _ := a.begin(pipeline.Implement)
	steps := []*attempt.Step{nil}
	if len(plan.Steps) > 0 {
		steps = nil
		for i := range plan.Steps {
			steps = append(steps, &plan.Steps[i])
		}
	}
	for i, step := range steps {
		d, err := a.edit(ctx, s, a.files(step), func(f attempt.Facts) string {
			return attempt.ImplementPrompt(f, step, i+1, len(steps))
		})
		if err != nil {
			return done, err
		}
		done.Add(d)
		// What is refused now is not worth another step.
		if c, err := change.Read(ctx, a.site.tree.Path, a.site.tree.Commit); err != nil {
			return done, err
		} else if found := change.Check(c, a.facts.Rules); len(c.Files) > 0 {
			if end := attempt.Refused(pipeline.Implement, found, a.facts.Rules); end != nil {
				return done, end
			}
		}
	}
	a.note("implemented: " + cmp.Or(done.Summary, "without a summary"))
	_, err = a.check(ctx)
	return done, err
}

// check reads the change from git, and checks it against the rules of the mode and the integrity of the tests.
func (a *run) check(ctx context.Context) (*change.Change, error) {
	c, err := change.Read(ctx, a.site.tree.Path, a.site.tree.Commit)
	if err != nil {
		return nil, err
	}
	found := change.Check(c, a.facts.Rules)
	if end := attempt.Refused(a.stage, found, a.facts.Rules); end != nil {
		return nil, end
	}
	weaker, err := integrity.Check(ctx, c, a.facts.Rules)
	if err != nil {
		return nil, err
	}
	if end := attempt.Weakened(a.stage, weaker, a.facts); end != nil {
		return nil, end
	}
	a.reviews = append(found, weaker...)
	return c, nil
}

// verify returns the end of an attempt whose work tree a stage has changed, as a text says. That the work tree cannot
// be read is another matter, and ends the worker.
func verify(ctx context.Context, c *change.Change, n pipeline.Name, kind outcome.ObstacleKind, text string) error {
	err := c.Verify(ctx)
	if errors.Is(err, change.ErrMoved) {
		return attempt.Retry(n, kind, "%s: %v", text, err)
	}
	return err
}

// review lets a model or a command review the change. A review that cannot be read does not pass.
func (a *run) review(ctx context.Context, c *change.Change) (warnings []string, err error) {
	s, ok := a.begin(pipeline.Security)
	if !ok {
		return nil, nil
	}
	diff, err := a.site.diff(ctx, c.Base, c.Tree)
	if err != nil {
		return nil, err
	}
	if !attempt.Reviewable(diff) {
		return nil, attempt.Escalate(pipeline.Security, outcome.ScopeTooLarge, "The change is too large for a review "+
			"by a model. Divide the task, or review it yourself.", "the diff has %d bytes", len(diff))
	}
	if s.CommandLine() == agentcli.Plain {
		got, err := a.caller.execute(ctx, pipeline.Security, s, a.site.tree, diff)
		switch {
		case err != nil:
			return nil, err
		case got.failed != nil && got.failed.Obstacle != outcome.VerificationFailed: // it has no answer
			return nil, attempt.Called(pipeline.Security, "", *got.failed)
		case got.failed != nil:
			return nil, blocked(fmt.Sprintf("%s: %s", got.failed.Reason, attempt.Tail(got.output, 3000)))
		}
	} else {
		text, err := a.ask(ctx, pipeline.Security, s, attempt.SecurityPrompt(a.facts, diff))
		if err != nil {
			return nil, err
		}
		r, err := attempt.Read[attempt.Review](text)
		switch {
		case err != nil:
			return nil, attempt.Retry(pipeline.Security, outcome.SchemaMismatch, "%v", err)
		case r.Verdict == attempt.Block:
			return nil, blocked(strings.Join(r.Findings, "; "))
		case r.Verdict == attempt.Warn:
			warnings = r.Findings
		}
	}
	err = verify(ctx, c, pipeline.Security, outcome.GuardDenied, "the review has changed the work tree")
	if err != nil {
		return nil, err
	}
	a.note("the review passed")
	return warnings, nil
}

// blocked returns the end of an attempt whose review has refused the change.
func blocked(findings string) *attempt.End {
	findings = cmp.Or(findings, "without a reason")
	return attempt.Escalate(pipeline.Security, outcome.GuardDenied,
		"The security review blocks the change: "+findings+". May the task be done in another way?",
		"the security review blocks the change: %s", findings)
}

// ask calls the model of a stage, and returns the answer that fits the schema of the stage.
func (a *run) ask(ctx context.Context, n pipeline.Name, s pipeline.Stage, prompt string) ([]byte, error) {
	schema, err := answer.ParseSchema([]byte(attempt.Schema(n)))
	if err != nil {
		return nil, err
	}
	for again := s.Retries; ; again-- {
		got, err := a.caller.call(ctx, n, s, prompt)
		if err != nil {
			return nil, err
		}
		text, err := schema.Find(got.text)
		if err == nil {
			return text, nil
		}
		if again <= 0 {
			return nil, attempt.Retry(n, outcome.SchemaMismatch, "%v", err)
		}
		a.say("the answer of %s cannot be used: %v; it is asked again", n, err)
		prompt += "\nYour last answer could not be used: " + err.Error() + "\n"
	}
}

// archive runs the last command. The task is done, whatever it says.
func (a *run) archive(ctx context.Context, r *released) {
	s, ok := a.begin(pipeline.Archive)
	if !ok {
		return
	}
	got, err := a.caller.execute(ctx, pipeline.Archive, s, a.site.tree, r.json())
	switch {
	case err != nil:
		a.say("archive: %v", err)
	case got.failed != nil:
		a.say("archive has failed: %s", got.failed.Reason)
	}
}

// test runs the checks of the repository. When they fail the model may repair its change a few times. It returns the
// change that has passed.
func (a *run) test(ctx context.Context, done *attempt.Done) (*change.Change, error) {
	c, err := a.check(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := a.begin(pipeline.Test)
	all := a.tester.checking(s, ok)
	if len(all) == 0 {
		return c, nil
	}
	for fix := 0; ; fix++ {
		runs, err := a.tester.runTests(ctx, all, a.site.tree)
		if err != nil {
			return nil, err
		}
		got := runs[len(runs)-1]
		if got.Failed == "" {
			a.note(fmt.Sprintf("tests passed after %d fixes", fix))
			return c, a.tester.passed(ctx, c, runs)
		}
		if fix == a.settings.FixAttempts {
			return nil, a.tester.blame(ctx, all[len(runs)-1], got)
		}
		a.say("test has failed (%s); fix %d of %d begins", got.Failed, fix+1, a.settings.FixAttempts)
		a.enter(pipeline.Implement)
		d, err := a.edit(ctx, a.settings.Of(pipeline.Implement), changedPaths(c), func(f attempt.Facts) string {
			return attempt.FixPrompt(f, strings.Join(got.argv, " "), got.Failed, got.output)
		})
		if err != nil {
			return nil, err
		}
		done.Add(d)
		if c, err = a.check(ctx); err != nil {
			return nil, err
		}
		a.enter(pipeline.Test)
	}
}
