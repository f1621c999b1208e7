// Package outcome describes how a try at a piece of work has ended, so that what
// was learned in it is not lost: the next try, or a person, begins with it instead
// of finding it out again. There are six kinds and no others, and none of
// them is "failed": a try that did not complete its work says what it did, what
// was in its way and what it found, or it cannot be made.
//
// What becomes of the work is decided elsewhere, by Kind alone.
package outcome

import (
	"slices"
	"strings"
	"time"
)

// Kind is what an outcome is. The set is closed: see Kinds.
type Kind string

const (
	Completed  Kind = "completed"  // the work is done
	Deferred   Kind = "deferred"   // not now: back into the queue with what was learned
	Decomposed Kind = "decomposed" // too large: done when its subtasks are
	Blocked    Kind = "blocked"    // parked until a condition holds
	Retryable  Kind = "retryable"  // the same again may work: a flaky test, a timeout, an answer that could not be read
	Escalated  Kind = "escalated"  // a person has to decide
)

// Kinds are all there are.
func Kinds() []Kind { return []Kind{Completed, Deferred, Decomposed, Blocked, Retryable, Escalated} }

// MaxBytes is how long the JSON of an outcome may be.
const MaxBytes = 64 << 10

// Report is what an outcome is made of; New checks it. Text is UTF-8.
type Report struct {
	Kind Kind `json:"kind"`
	// Summary is what was done, in a line or a few.
	Summary string `json:"summary,omitempty"`
	// Context is what every kind but Completed needs.
	Context *Context `json:"context,omitempty"`
	// NotBefore is when to try again at the earliest. Deferred needs it, unless
	// its obstacle is a MissingPrerequisite, which says what to wait for;
	// Retryable may have it. What has passed already is no wait.
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Subtasks are what Decomposed needs: one at least.
	Subtasks []Subtask `json:"subtasks,omitempty"`
	// Condition is what Blocked needs.
	Condition *Condition `json:"condition,omitempty"`
	// Question is what Escalated needs: what the person has to decide.
	Question string `json:"question,omitempty"`
}

// Context is what was learned in a try that did not complete its work.
type Context struct {
	// Approach is what was attempted; needed.
	Approach string `json:"approach"`
	// Obstacle is what was in the way; needed.
	Obstacle Obstacle `json:"obstacle"`
	// Discoveries are what was found out about the work and what it is done on.
	Discoveries []string `json:"discoveries,omitempty"`
	// Recommendation is what the next try should do.
	Recommendation string `json:"recommendation,omitempty"`
	// Explored is what need not be looked at again.
	Explored Explored `json:"explored_state,omitzero"`
}

// IsZero reports whether there is nothing in it.
func (c Context) IsZero() bool {
	return c.Approach == "" && c.Obstacle == Obstacle{} && c.Recommendation == "" && len(c.Discoveries) == 0 &&
		len(c.Explored.Files)+len(c.Explored.Dependencies) == 0 && c.Explored.Notes == ""
}

// Explored is what was looked at.
type Explored struct {
	Files        []string `json:"files,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
	Notes        string   `json:"notes,omitempty"`
}

// Subtask is a part of work that was too large.
type Subtask struct {
	// ID names it among its siblings: a letter or digit, then up to 63
	// letters, digits, "-" and "_". It becomes part of names of files and
	// branches, so that no two may differ in case alone.
	ID        string `json:"id"`
	Objective string `json:"objective"`
	// DependsOn are IDs of siblings that must be done before; never in a circle.
	DependsOn        []string `json:"depends_on,omitempty"`
	DefinitionOfDone string   `json:"definition_of_done,omitempty"`
}

// Condition is what parked work waits for.
type Condition struct {
	Kind ConditionKind `json:"kind"`
	What string        `json:"what"` // the task, the service, or what the person has to do
}

// ConditionKind is who makes a Condition hold.
type ConditionKind string

const (
	TaskDone  ConditionKind = "task"    // a task is completed
	ServiceUp ConditionKind = "service" // something outside works again
	PersonHas ConditionKind = "person"  // a person has done or decided it
)

// Outcome is one that was checked. New makes it; the zero value is none.
type Outcome struct{ report Report }

// New makes an outcome, or fails with an *Error that names everything that is
// missing or wrong. It keeps nothing of r that the caller could change.
func New(r Report) (Outcome, error) {
	r = r.clone()
	if r.NotBefore != nil {
		t := r.NotBefore.UTC().Round(0)
		r.NotBefore = &t
	}
	if err := check(r); err != nil {
		return Outcome{}, err
	}
	return Outcome{r}, nil
}

// Kind is empty in the zero Outcome.
func (o Outcome) Kind() Kind { return o.report.Kind }

// Report returns a copy of what the outcome is made of.
func (o Outcome) Report() Report { return o.report.clone() }

// String is the outcome in a line: its kind, and what was in the way or done.
// The text is as it was given, but for its end: not fit for a terminal.
func (o Outcome) String() string {
	r := o.report
	text := r.Summary
	if r.Context != nil {
		text = r.Context.Obstacle.String()
	}
	text = strings.TrimSpace(text)
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		text = text[:i] + " …"
	}
	if text == "" {
		return string(r.Kind)
	}
	return string(r.Kind) + ": " + text
}

func (r Report) clone() Report {
	if r.Context != nil {
		c := *r.Context
		c.Discoveries = cloneNonEmpty(c.Discoveries)
		c.Explored.Files = cloneNonEmpty(c.Explored.Files)
		c.Explored.Dependencies = cloneNonEmpty(c.Explored.Dependencies)
		r.Context = &c
	}
	if r.NotBefore != nil {
		t := *r.NotBefore
		r.NotBefore = &t
	}
	if r.Condition != nil {
		c := *r.Condition
		r.Condition = &c
	}
	r.Subtasks = cloneNonEmpty(r.Subtasks)
	for i := range r.Subtasks {
		r.Subtasks[i].DependsOn = cloneNonEmpty(r.Subtasks[i].DependsOn)
	}
	return r
}

// cloneNonEmpty copies a list; an empty one is none, so that it is the same when it is read again.
func cloneNonEmpty[T any](all []T) []T {
	if len(all) == 0 {
		return nil
	}
	return slices.Clone(all)
}
