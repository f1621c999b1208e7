package worker

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/pattern"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/pipeline/progress"
)

// job is an attempt while it is made: its task and rules, and what it has to report. The parts of the worker that make
// the attempt share it.
type job struct {
	*worker
	assignment Assignment
	settings   pipeline.Settings // of the assignment
	facts      attempt.Facts

	stage    pipeline.Name     // that goes on
	progress progress.Progress // what was shown last

	notes   []string         // what was done so far, for the next attempt
	learnt  attempt.Report   // what models have said
	reviews []change.Finding // what a person should look at
	checks  []outcome.Check  // that have passed
}

// begin begins a stage, and reports whether it is skipped.
func (j *job) begin(n pipeline.Name) (pipeline.Stage, bool) {
	j.enter(n)
	s := j.settings.Of(n)
	if len(s.Command) == 0 {
		return s, false
	}
	if why, skipped := j.skips(s); skipped {
		j.note(fmt.Sprintf("%s was skipped", n))
		j.say("%s is skipped: %s", n, why)
		return s, false
	}
	j.say("%s begins", n)
	return s, true
}

// enter says that the attempt has reached a stage.
func (j *job) enter(n pipeline.Name) {
	j.stage = n
	j.progress.Stage, j.progress.Mode, j.progress.Since = n.String(), string(j.facts.Rules.Kind), time.Now()
	j.announce(j.progress)
}

// skips reports whether a stage is skipped for the task, and why.
func (j *job) skips(s pipeline.Stage) (why string, skipped bool) {
	if s.SkipIf == nil || s.SkipIf.Mode != "" && s.SkipIf.Mode != string(j.facts.Rules.Kind) {
		return "", false
	}
	rules, err := kindRules([]pipeline.Rule{*s.SkipIf})
	if err != nil {
		return "", false
	}
	const skip change.Kind = "skip"
	rules[0].Kind = skip
	kind, why := change.Choose(rules, "", j.taskFacts())
	return why, kind == skip
}

// taskFacts returns what rules match.
func (j *job) taskFacts() change.TaskFacts {
	t := j.facts.Task.Task
	return change.TaskFacts{Labels: t.Labels, Priority: t.Priority, Paths: attempt.Files(j.facts.Task.Text),
		Explicit: change.Kind(t.Mode), ByPerson: true} // nobody else sets it
}

// kindRules returns the rules that choose a mode.
func kindRules(all []pipeline.Rule) (rules []change.KindRule, err error) {
	for _, r := range all {
		k := change.KindRule{Kind: change.Kind(r.Mode), Labels: r.Labels, Priorities: r.Priorities}
		if len(r.Paths) > 0 {
			paths, err := pattern.NewList(r.Paths...)
			if err != nil {
				return nil, err
			}
			k.Paths = &paths
		}
		rules = append(rules, k)
	}
	return rules, nil
}

// note adds to what the next attempt is told of this one.
func (j *job) note(text string) { j.notes = append(j.notes, text) }

// looks returns what a person should look at, given the warnings of the review.
func (j *job) looks(warnings []string) (notes []string) {
	for _, f := range j.reviews {
		notes = append(notes, fmt.Sprintf("%s: %s", f.Rule, f))
	}
	for _, w := range warnings {
		notes = append(notes, "security: "+w)
	}
	return notes
}

// ended returns the outcome of an attempt that has not completed its task.
func (j *job) ended(e *attempt.End) outcome.Report {
	learnt := j.learnt.With(e.Learned)
	return outcome.Report{
		Kind: e.Kind, Question: e.Question, Condition: e.Condition, Subtasks: e.Subtasks, Evidence: e.Evidence,
		Context: &outcome.Context{
			Approach: attempt.Approach(j.notes, e.Stage),
			Obstacle: e.Obstacle, Discoveries: learnt.Discoveries, Recommendation: learnt.Recommendation,
			Explored: outcome.Explored{Files: learnt.Explored},
		},
	}
}

// completed returns the outcome of an attempt that has completed its task.
func (j *job) completed(r *released) outcome.Report {
	return outcome.Report{
		Kind: outcome.Completed, Summary: r.Summary, Evidence: j.evidence(r),
	}
}

// evidence returns what shows that a change is there.
func (j *job) evidence(r *released) *outcome.Evidence {
	return &outcome.Evidence{
		Branch: r.Branch, Commit: r.Commit, Base: r.Base, Files: r.Totals.Files, Insertions: r.Totals.Added,
		Deletions: r.Totals.Deleted, Checks: r.checks, PullRequest: r.URL,
	}
}
