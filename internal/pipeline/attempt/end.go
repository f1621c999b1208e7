package attempt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/integrity"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/safename"
	"github.com/coppice-dev/coppice/internal/task"
)

// End is the end of an attempt that has not completed its task, as the stage in which it ended knows it. It is an
// error.
type End struct {
	Stage    pipeline.Name
	Kind     outcome.Kind
	Obstacle outcome.Obstacle
	// Question is required by Escalated, Condition by Blocked, and Subtasks by Decomposed.
	Question  string
	Condition *outcome.Condition
	Subtasks  []outcome.Subtask
	// Evidence shows the change that waits for a person; nil if none does.
	Evidence *outcome.Evidence
	// Learned has the findings of the model.
	Learned Report
}

// Error implements error.
func (e *End) Error() string { return fmt.Sprintf("%s: %s: %s", e.Stage, e.Kind, e.Obstacle) }

// maxEndText bounds a text of an outcome, in bytes. All of them together have to fit into outcome.MaxBytes as JSON.
const maxEndText = 4 << 10

// Retry returns the end of an attempt that may end better when it is made again.
func Retry(n pipeline.Name, kind outcome.ObstacleKind, format string, args ...any) *End {
	return &End{Stage: n, Kind: outcome.Retryable, Obstacle: outcome.Obstacle{
		Kind: kind, Description: shorten(fmt.Sprintf(format, args...), maxEndText),
	}}
}

// Escalate returns the end of an attempt about which a person has to decide.
func Escalate(n pipeline.Name, kind outcome.ObstacleKind, question, format string, args ...any) *End {
	e := Retry(n, kind, format, args...)
	e.Kind, e.Question = outcome.Escalated, shorten(question, maxEndText)
	return e
}

// Learned returns the end that a model asks for with an obstacle; nil if it has none. The kind of the obstacle alone
// decides how the attempt ends.
func Learned(n pipeline.Name, r Report, maxFiles int) *End {
	if r.Obstacle == nil {
		return nil
	}
	e := &End{Stage: n, Kind: outcome.Retryable, Obstacle: r.Obstacle.known(maxFiles), Learned: r}
	text := shorten(e.Obstacle.String(), maxEndText)
	switch e.Obstacle.Kind {
	case outcome.MissingPrerequisite:
		e.Kind = outcome.Deferred
	case outcome.ExternalDependency:
		e.Kind = outcome.Blocked
		e.Condition = &outcome.Condition{Kind: outcome.ServiceUp, What: shorten(e.Obstacle.Service, 200)}
	case outcome.ArchitecturalGap:
		e.Kind, e.Question = outcome.Escalated, "The model cannot do this task as the code is: "+text
	}
	return e
}

// Divided returns the end of an attempt whose plan divides the task.
func Divided(a Answer) *End {
	e := &End{
		Stage: pipeline.Plan, Kind: outcome.Decomposed, Learned: a.Report,
		Obstacle: outcome.Obstacle{Kind: outcome.OtherObstacle,
			Description: fmt.Sprintf("too large for one attempt: it is divided into %d subtasks", len(a.Subtasks))},
	}
	for _, s := range a.Subtasks {
		// The names are those of a model.
		part := outcome.Subtask{ID: safename.Of(s.ID), Objective: s.Objective, DefinitionOfDone: s.DefinitionOfDone}
		for _, id := range s.DependsOn {
			part.DependsOn = append(part.DependsOn, safename.Of(id))
		}
		e.Subtasks = append(e.Subtasks, part)
	}
	return e
}

// Called returns the end of an attempt whose command has failed, as its verdict says.
func Called(n pipeline.Name, model string, v agentcli.Verdict) *End {
	e := Retry(n, cmp.Or(v.Obstacle, outcome.Crash), "%s", cmp.Or(v.Reason, "its command has failed"))
	if e.Obstacle.Kind == outcome.ModelLimitation {
		e.Obstacle.Model, e.Obstacle.ErrorClass = cmp.Or(model, "the model"), e.Obstacle.Description
	}
	if v.Kind == outcome.Escalated || v.Kind == outcome.Blocked {
		e.Kind, e.Question = outcome.Escalated, fmt.Sprintf("The stage %s cannot go on: %s", n, v.Text())
	}
	return e
}

// Refused returns the end of an attempt whose plan or change is refused; nil if it is not. A change of what nobody may
// change is a matter for people. Another try may do with less.
func Refused(n pipeline.Name, all []change.Finding, r change.Rules) *End {
	var texts []string
	kind, escalate := outcome.GuardDenied, false
	for _, f := range all {
		if f.Review {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %s", f.Rule, f))
		switch f.Rule {
		case change.RuleProtected, change.RuleLink, change.RuleHidden:
			escalate = true
		case change.RuleEmpty:
			kind = outcome.VerificationFailed
		}
	}
	if len(texts) == 0 {
		return nil
	}
	for i, text := range texts {
		texts[i] = shorten(text, 300)
	}
	what := "The change"
	if n == pipeline.Plan {
		what = "The plan"
	}
	text := fmt.Sprintf("%s is refused in %s mode: %s", what, r.Kind, List(texts))
	if escalate {
		return Escalate(n, kind, text+". May the task be done in another way, or should a person do it?", "%s", text)
	}
	return Retry(n, kind, "%s", text)
}

// Weakened returns the end of an attempt whose change makes tests weaker; nil if it does not, or if a person decides.
// In evolution mode a person reviews the change. It is refused all the same the first time, so that the next attempt
// can do without: only what two attempts at a task want is worth the attention of a person.
func Weakened(n pipeline.Name, all []change.Finding, f Facts) *End {
	if f.Rules.Kind == change.Evolution && !f.weakened() {
		all = slices.Clone(all)
		for i := range all {
			all[i].Review = all[i].Review && !integrity.Weakens(all[i].Rule)
		}
	}
	end := Refused(n, all, f.Rules)
	if end != nil {
		end.Obstacle.Kind = outcome.TestsWeakened
		end.Obstacle.Description = shorten("The change makes tests weaker. "+end.Obstacle.Description, maxEndText)
	}
	return end
}

// weakened reports whether an earlier attempt has made tests weaker.
func (f Facts) weakened() bool {
	return slices.ContainsFunc(f.Task.Attempts, func(a task.Attempt) bool {
		return a.Outcome.Context != nil && a.Outcome.Context.Obstacle.Kind == outcome.TestsWeakened
	})
}

// maxListed bounds the findings in a text.
const maxListed = 10

// List joins texts; of many, the first.
func List(texts []string) string {
	if more := len(texts) - maxListed; more > 0 {
		texts = append(texts[:maxListed:maxListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// shorten cuts a text that is too long, and makes it UTF-8 without control characters except newlines.
func shorten(text string, most int) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-4], "") + " ..."
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, plaintext.Line(strings.TrimSuffix(line, "\r")))
	}
	return strings.Join(lines, "\n")
}
