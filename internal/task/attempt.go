package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// MaxAttempts bounds the attempts of a task that are kept; the oldest are removed.
const MaxAttempts = 200

// Attempt is one try at a task, from its claim to its outcome.
type Attempt struct {
	_ struct{} `open:"true" doc:"An attempt at a task."`

	Number      int       `json:"number" minimum:"1" doc:"1 for the first."`
	By          string    `json:"by" doc:"Path of the agent, or name of the person."`
	Incarnation uint64    `json:"incarnation,omitempty" doc:"Of the agent."`
	BeganAt     time.Time `json:"began_at" doc:"When the task was claimed."`
	EndedAt     time.Time `json:"ended_at" doc:"When the attempt has ended."`
	// Outcome is never changed, and may be of a kind that only later versions know.
	Outcome outcome.Report `json:"outcome" doc:"How it has ended, and what was learned."`
	// ReportedBy is the claimant, a person, or "controller" if the claimant has said nothing.
	ReportedBy string `json:"reported_by" doc:"Who has reported the outcome: the claimant, a person, or controller if the claimant has said nothing."`
	// Used is derived from the ledger, and not stored. It is nil if nothing is known.
	Used *Use `json:"used,omitempty" doc:"What its calls of language models have used; missing if that is not known, and until they have ended."`
}

// unreported is the approach in a context that was not written by the one who has tried.
const unreported = "not reported"

// newOutcome returns an outcome that is known to be complete.
func newOutcome(r outcome.Report) outcome.Outcome {
	o, err := outcome.New(r)
	if err == nil {
		return o
	}
	// A text that is not UTF-8 came from an exit. It is not worth to lose the outcome.
	valid := func(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
	r.Summary, r.Question = valid(r.Summary), valid(r.Question)
	if r.Context != nil {
		c := *r.Context
		c.Obstacle.Description, c.Explored.Notes = valid(c.Obstacle.Description), valid(c.Explored.Notes)
		r.Context = &c
	}
	o, _ = outcome.New(r)
	return o
}

// takenBack returns the outcome of an attempt that somebody else has ended. It says nothing of the work.
func takenBack(actor Actor, how string) outcome.Outcome {
	at := now()
	return newOutcome(outcome.Report{
		Kind: outcome.Deferred, NotBefore: &at, Context: &outcome.Context{
			Approach: unreported,
			Obstacle: outcome.Obstacle{
				Kind:        outcome.OtherObstacle,
				Description: cut(strings.TrimSuffix(actor.String()+" "+how, ": ")),
			},
		},
	})
}

// recordAttempt writes the attempt at a task that is still claimed, and the comment about it.
func (s *Step) recordAttempt(r *Record, o outcome.Outcome, reporter string) {
	a := Attempt{
		Number: r.Claims, By: r.Claim.By, Incarnation: r.Claim.Incarnation, BeganAt: r.Claim.At, EndedAt: now(),
		Outcome: o.Report(), ReportedBy: reporter,
	}
	s.attempt, s.attemptAt = &a, r.ID
	r.LastAttemptAt = a.EndedAt
	value, _ := json.Marshal(a) // cannot fail for these types
	s.Writes = append(s.Writes, Write{Part: AttemptPart, ID: r.ID, N: a.Number, Value: value})
	if r.OldestAttempt == 0 {
		r.OldestAttempt = a.Number
	}
	if a.Number-r.OldestAttempt >= MaxAttempts {
		s.Writes = append(s.Writes, Write{Part: AttemptPart, ID: r.ID, N: r.OldestAttempt})
		r.OldestAttempt++
	}
	// That an attempt was stopped from outside teaches the next one nothing.
	if a.Outcome.Context != nil && !a.silent() {
		by := Actor{Path: a.By, Incarnation: a.Incarnation}
		if reporter != a.By {
			by = Actor{Name: reporter}
		}
		s.comment(r, by, fmt.Sprintf("Attempt %d: %s", a.Number, a.Outcome.Describe()))
	}
}

// silent reports whether an attempt says nothing about the work, since it was taken from its agent.
func (a Attempt) silent() bool {
	c := a.Outcome.Context
	return a.Outcome.Kind == outcome.Deferred && c != nil && strings.HasPrefix(c.Approach, unreported)
}
