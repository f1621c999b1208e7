package task

import (
	"cmp"
	"fmt"
	"strings"
)

// maxFailure bounds the failure text in the reason of a parked task, in bytes.
const maxFailure = 1000

// Exit says how an incarnation has ended, for the tasks that it had claimed.
type Exit struct {
	// Failure describes how the agent failed. It is empty if the agent was asked to stop, or the cause is unknown:
	// only failures count against the tasks.
	Failure string
	// Park is why the tasks are parked; empty if they are open again.
	Park string
}

// end is the end of an incarnation.
type end struct {
	life Life
	Exit
}

// ReleaseOrphans opens tasks again whose claims belong to ended incarnations of an agent, at most
// so many.
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

// endOrphan ends the claim of an ended incarnation. The claim counts as failed if the agent has
// failed.
func (s *Step) endOrphan(r *Record) error {
	path, reason := r.Claim.By, fmt.Sprintf("incarnation %d of %s is over", r.Claim.Incarnation, r.Claim.By)
	failure := ""
	if e := s.state.ends[path]; e.life == (Life{r.Claim.Incarnation, r.Claim.Life}) {
		switch {
		case e.Park != "":
			r.Status, r.Claim, r.Reason = Parked, nil, truncate(e.Park)
			return s.save(r, Actor{Name: controller}, Withheld, r.Reason)
		case e.Failure != "":
			failure, reason = path+": "+e.Failure, truncate(reason+": "+e.Failure)
		}
	}
	return s.endClaim(r, Actor{Name: controller}, Released, reason, failure)
}

// giveBack ends the claim of a task that is not closed. If its agent does so, the claim counts as
// failed.
func (s *Step) giveBack(r *Record, actor Actor, kind Kind, reason string) error {
	reason = strings.TrimSpace(reason)
	failure := ""
	if r.forgetFailures(actor); r.Claim != nil && !actor.Person() {
		failure = strings.TrimSuffix(actor.String()+" has given it back: "+reason, ": ")
	}
	return s.endClaim(r, actor, kind, reason, failure)
}

// endClaim opens a claimed task again. A failure of its agent is counted, and parks the task once
// there are too many.
func (s *Step) endClaim(r *Record, actor Actor, kind Kind, reason, failure string) error {
	r.Status, r.Claim, r.Reason = Open, nil, reason
	if failure != "" && s.countFailure(r, failure) {
		kind = Withheld
	}
	return s.save(r, actor, kind, r.Reason)
}

// countFailure counts a failed claim, and reports whether that parks the task.
func (s *Step) countFailure(r *Record, failure string) (parked bool) {
	r.FailedClaims++
	most := cmp.Or(r.MaxClaims, s.state.maxClaims())
	if most == 0 || r.FailedClaims < most {
		return false
	}
	times := "once"
	if r.FailedClaims > 1 {
		times = fmt.Sprintf("%d times", r.FailedClaims)
	}
	r.Status, r.Claim = Parked, nil
	r.Reason = fmt.Sprintf("claimed %s without a result, last: %s", times, truncate(failure))
	return true
}

// truncate shortens a text to fit into a reason.
func truncate(text string) string {
	if len(text) <= maxFailure {
		return text
	}
	return strings.ToValidUTF8(text[:maxFailure], "") + " ..."
}

// forgetFailures resets the count of failed claims if a person opens the task.
func (r *Record) forgetFailures(actor Actor) {
	if actor.Person() {
		r.FailedClaims = 0
	}
}

// errParked returns the error for an action that a parked task does not allow.
func errParked(r *Record) error {
	return fmt.Errorf(
		"%w: %s is parked: %s; a person can reopen it with: coppice task retry %[2]s",
		ErrConflict, r.ID, r.Reason,
	)
}
