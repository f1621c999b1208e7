package task

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// maxFailure bounds the text about a failure in a reason, in bytes.
const maxFailure = 1000

// Exit says how an incarnation has ended, for the attempts at tasks that it has said nothing about.
type Exit struct {
	// Failure describes how the agent failed. It is empty if the agent was asked to stop, if what
	// has ended it was outside of it, or if the cause is unknown: only failures count against the
	// tasks.
	Failure string
	// Cause describes an end that is no failure, if it is known.
	Cause string
	// Obstacle is the kind of a failure or of what was outside; empty if it is not known.
	Obstacle outcome.ObstacleKind
	// Output has the last lines that it has written.
	Output []string
	// Park is why the tasks are parked; empty if they are open again.
	Park string
}

// OrphanHolders returns the agents with orphaned claims, sorted.
func (s *State) OrphanHolders() (all []string) {
	for by := range s.index.claimed {
		if len(s.orphans(by)) > 0 {
			all = append(all, by)
		}
	}
	slices.Sort(all)
	return all
}

// HasOrphans reports whether ended incarnations of an agent hold claims.
func (s *State) HasOrphans(path string) bool { return len(s.orphans(path)) > 0 }

func (s *State) orphans(path string) (all []*Record) {
	for id := range s.index.claimed[path] {
		if r := s.Record(id); s.agents.orphaned(r.Claim) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Record) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// ReleaseOrphans ends the attempts of ended incarnations of an agent, at most so many.
func (s *Step) ReleaseOrphans(path string, most int) error {
	all := s.state.orphans(path)
	for _, r := range all[:min(len(all), most)] {
		after := *r
		if err := s.endOrphan(&after); err != nil {
			return err
		}
	}
	return nil
}

// endOrphan ends the attempt of an incarnation that has ended. The outcome says what is known of its end.
func (s *Step) endOrphan(r *Record) error {
	over := fmt.Sprintf("incarnation %d of %s is over", r.Claim.Incarnation, r.Claim.By)
	exit := s.state.agents.exit(r.Claim)
	by := Actor{Name: controller}
	if exit.Park != "" {
		s.recordAttempt(r, exit.outcome(r.Claim, over), controller)
		r.Status, r.Claim, r.Reason = Parked, nil, cut(exit.Park)
		return s.save(r, by, Withheld, r.Reason)
	}
	reason := over
	if text := cmp.Or(exit.Failure, exit.Cause); text != "" {
		reason += ": " + text
	}
	return s.endAttempt(r, ending{by: by, outcome: exit.outcome(r.Claim, over), reason: reason})
}

// outcome returns the outcome of an attempt whose agent has said nothing.
func (e Exit) outcome(claim *Holder, over string) outcome.Outcome {
	at := now()
	r := outcome.Report{
		Kind: outcome.Deferred, NotBefore: &at, Context: &outcome.Context{
			Approach: fmt.Sprintf("%s: %s worked on it for %s", unreported, claim.name(),
				max(0, at.Sub(claim.At)).Round(time.Second)),
			Obstacle: outcome.Obstacle{
				Kind:        cmp.Or(e.Obstacle, outcome.OtherObstacle),
				Description: cut(cmp.Or(e.Failure, e.Cause, over)),
			},
			Explored: outcome.Explored{Notes: lastOutput(e.Output)},
		},
	}
	switch {
	case e.Park != "":
		r.Kind, r.NotBefore, r.Question = outcome.Escalated, nil, cut(e.Park)
		r.Context.Obstacle.Kind, r.Context.Obstacle.Description = outcome.Budget, cut(e.Park)
	case e.Failure != "":
		r.Kind, r.NotBefore = outcome.Retryable, nil
		r.Context.Obstacle.Kind = cmp.Or(e.Obstacle, outcome.Crash)
	}
	return newOutcome(r)
}

// maxOutput bounds the last output in a context, in bytes.
const maxOutput = 4 << 10

// lastOutput returns the last lines of an output as notes.
func lastOutput(lines []string) string {
	text := ""
	for i := len(lines) - 1; i >= 0 && len(text)+len(lines[i]) < maxOutput; i-- {
		text = "\n  " + lines[i] + text
	}
	if text == "" {
		return ""
	}
	return "its last output:" + text
}

// countFailure counts a failed attempt, and reports whether that parks the task. By default that is so after most of
// them; 0 means never.
func (r *Record) countFailure(holder string, report outcome.Report, most int) (parked bool) {
	r.FailedClaims++
	most = cmp.Or(r.MaxClaims, most)
	if most == 0 || r.FailedClaims < most {
		return false
	}
	r.Status, r.NotBefore = Parked, time.Time{}
	r.Reason = fmt.Sprintf("claimed %s without a result, last: %s: %s", counted(r.FailedClaims), holder,
		cut(cmp.Or(report.Context.Obstacle.Description, report.Context.Obstacle.String())))
	return true
}

// counted returns a number of times in words.
func counted(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// cut makes a text of any origin fit into a reason.
func cut(text string) string { return plaintext.Cut(text, maxFailure) }

// errParked returns the error for an action that a parked task does not allow.
func errParked(r *Record) error {
	return fmt.Errorf(
		"%w: %s is parked: %s; a person can reopen it with: coppice task retry %[2]s",
		ErrConflict, r.ID, r.Reason,
	)
}
