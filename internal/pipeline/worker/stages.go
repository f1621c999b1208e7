package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	if err := a.failsBefore(ctx); err != nil {
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
	r, err := a.release(ctx, c, done, warnings)
	if err != nil {
		return nil, err
	}
	a.archive(ctx, r)
	return r, nil
}

// begin begins a stage, and reports whether it is skipped.
func (a *run) begin(n pipeline.Name) (pipeline.Stage, bool) {
	a.enter(n)
	s := a.settings.Of(n)
	if len(s.Command) == 0 {
		return s, false
	}
	if why, skipped := a.skips(s); skipped {
		a.note(fmt.Sprintf("%s was skipped", n))
		a.say("%s is skipped: %s", n, why)
		return s, false
	}
	a.say("%s begins", n)
	return s, true
}

// enter says that the attempt has reached a stage.
func (a *run) enter(n pipeline.Name) {
	a.stage = n
	a.progress.Stage, a.progress.Mode, a.progress.Since = n.String(), string(a.facts.Rules.Kind), time.Now()
	a.announce(a.progress)
}

// skips reports whether a stage is skipped for the task, and why.
func (a *run) skips(s pipeline.Stage) (why string, skipped bool) {
	if s.SkipIf == nil || s.SkipIf.Mode != "" && s.SkipIf.Mode != string(a.facts.Rules.Kind) {
		return "", false
	}
	rules, err := kindRules([]pipeline.Rule{*s.SkipIf})
	if err != nil {
		return "", false
	}
	const skip change.Kind = "skip"
	rules[0].Kind = skip
	kind, why := change.Choose(rules, "", a.taskFacts())
	return why, kind == skip
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
	if c, err := change.Read(ctx, a.tree.Path, a.tree.Commit); err != nil {
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
		if c, err := change.Read(ctx, a.tree.Path, a.tree.Commit); err != nil {
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
	c, err := change.Read(ctx, a.tree.Path, a.tree.Commit)
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
	diff, err := a.diff(ctx, c.Base, c.Tree)
	if err != nil {
		return nil, err
	}
	if !attempt.Reviewable(diff) {
		return nil, attempt.Escalate(pipeline.Security, outcome.ScopeTooLarge, "The change is too large for a review "+
			"by a model. Divide the task, or review it yourself.", "the diff has %d bytes", len(diff))
	}
	if s.CommandLine() == agentcli.Plain {
		got, err := a.execute(ctx, pipeline.Security, s, a.tree.Path, diff)
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
		got, err := a.call(ctx, n, s, prompt)
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
	got, err := a.execute(ctx, pipeline.Archive, s, a.tree.Path, r.json())
	switch {
	case err != nil:
		a.say("archive: %v", err)
	case got.failed != nil:
		a.say("archive has failed: %s", got.failed.Reason)
	}
}
