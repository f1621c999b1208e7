// Package outcome describes how an attempt at a piece of work has ended. It keeps what was learned,
// so that the next attempt, or a person, can start from there. There are six kinds of outcomes, and
// none of them is "failed": an attempt that did not complete its work has to say what it tried,
// what prevented it and what it found.
//
// Other packages decide what happens to the work, by Kind alone.
package outcome

import (
	"slices"
	"strings"
	"time"
)

// Kind is the kind of an outcome: one of Kinds.
type Kind string

const (
	Completed  Kind = "completed"  // the work is done
	Deferred   Kind = "deferred"   // not now: back into the queue, with what was learned
	Decomposed Kind = "decomposed" // too large: done when its subtasks are done
	Blocked    Kind = "blocked"    // parked until a condition holds
	Retryable  Kind = "retryable"  // the same again may work: a flaky test, a timeout, an answer that could not be read
	Escalated  Kind = "escalated"  // a person has to decide
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Completed, Deferred, Decomposed, Blocked, Retryable, Escalated} }

// MaxBytes bounds the JSON of an outcome.
const MaxBytes = 64 << 10

// Report is the content of an outcome. New checks it. Texts are UTF-8.
type Report struct {
	Kind Kind `json:"kind"`
	// Summary is what was done, in one or a few lines.
	Summary string `json:"summary,omitempty"`
	// Context is required by all kinds except Completed.
	Context *Context `json:"context,omitempty"`
	// Evidence shows what was done, so that the claim can be checked. It is optional, and nil if it is empty.
	Evidence *Evidence `json:"evidence,omitempty"`
	// NotBefore is the earliest time for the next attempt. Deferred requires it, unless its
	// obstacle is a MissingPrerequisite, which names what to wait for. Retryable may have it. A
	// time in the past means no wait.
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Subtasks are required by Decomposed: at least one.
	Subtasks []Subtask `json:"subtasks,omitempty"`
	// Condition is required by Blocked.
	Condition *Condition `json:"condition,omitempty"`
	// Question is required by Escalated: what a person has to decide.
	Question string `json:"question,omitempty"`
}

// Context is what was learned in an attempt that did not complete its work.
type Context struct {
	// Approach is what was attempted. Required.
	Approach string `json:"approach"`
	// Obstacle is what prevented completion. Required.
	Obstacle Obstacle `json:"obstacle"`
	// Discoveries are findings about the work and its environment.
	Discoveries []string `json:"discoveries,omitempty"`
	// Recommendation is what the next attempt should do.
	Recommendation string `json:"recommendation,omitempty"`
	// Explored lists what need not be looked at again.
	Explored Explored `json:"explored_state,omitzero"`
}

// IsZero reports whether the context is empty.
func (c Context) IsZero() bool {
	return c.Approach == "" && c.Obstacle == Obstacle{} && c.Recommendation == "" && len(c.Discoveries) == 0 &&
		len(c.Explored.Files)+len(c.Explored.Dependencies) == 0 && c.Explored.Notes == ""
}

// Explored lists what was looked at.
type Explored struct {
	Files        []string `json:"files,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
	Notes        string   `json:"notes,omitempty"`
}

// Subtask is a part of work that was too large.
type Subtask struct {
	// ID names the subtask among its siblings: a letter or digit, then up to 63 letters, digits,
	// "-" and "_". It becomes part of the names of files and branches, so IDs must differ in more
	// than case.
	ID        string `json:"id"`
	Objective string `json:"objective"`
	// DependsOn lists the IDs of siblings to do first. They must not form a cycle.
	DependsOn        []string `json:"depends_on,omitempty"`
	DefinitionOfDone string   `json:"definition_of_done,omitempty"`
}

// Outcome is a checked Report. The zero value is not an outcome.
type Outcome struct{ report Report }

// New returns an outcome, or an *Error that names everything that is missing or wrong. It shares no
// memory with r.
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

// Kind returns the kind; empty for the zero Outcome.
func (o Outcome) Kind() Kind { return o.report.Kind }

// Report returns a copy of the content.
func (o Outcome) Report() Report { return o.report.clone() }

// String returns the outcome in one line; see Report.String.
func (o Outcome) String() string { return o.report.String() }

// String returns the outcome in one line: its kind, and the obstacle or summary. The text is not
// sanitized for terminals.
func (r Report) String() string {
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
	r.Evidence = r.Evidence.clone()
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

// cloneNonEmpty copies a list. An empty one becomes nil, as after encoding and decoding.
func cloneNonEmpty[T any](all []T) []T {
	if len(all) == 0 {
		return nil
	}
	return slices.Clone(all)
}
