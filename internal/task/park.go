package task

import (
	"cmp"
	"fmt"
	"strings"
)

// maxFailure bounds how much of a failure the reason of a parked task repeats, in bytes.
const maxFailure = 1000

// end tells how an incarnation has ended.
type end struct {
	life    Life
	failure string // of the agent; empty if it was asked to end
}

// GiveBack makes the first so many tasks open again that incarnations of an agent have
// claimed that do not live.
func (s *Step) GiveBack(path string, most int) error {
	all := s.state.orphans(path)
	for _, r := range all[:min(len(all), most)] {
		after := *r
		if err := s.orphaned(&after); err != nil {
			return err
		}
	}
	return nil
}

// orphaned ends the claim of an incarnation that has ended. The claim has failed
// if the agent has.
func (s *Step) orphaned(r *Record) error {
	path, reason := r.Claim.By, fmt.Sprintf("incarnation %d of %s is over", r.Claim.Incarnation, r.Claim.By)
	failure := ""
	if e := s.state.ends[path]; e.life == (Life{r.Claim.Incarnation, r.Claim.Life}) && e.failure != "" {
		failure, reason = path+": "+e.failure, cut(reason+": "+e.failure)
	}
	return s.endClaim(r, Who{Name: controller}, Released, reason, failure)
}

// giveBack ends the claim of a task that is not closed. Where its agent does so,
// the claim has failed.
func (s *Step) giveBack(r *Record, who Who, kind Kind, reason string) error {
	reason = strings.TrimSpace(reason)
	failure := ""
	if r.forgetFailures(who); r.Claim != nil && !who.Person() {
		failure = strings.TrimSuffix(who.String()+" has given it back: "+reason, ": ")
	}
	return s.endClaim(r, who, kind, reason, failure)
}

// endClaim makes a task open again that was claimed. A failure of its agent
// counts, and parks the task once there are too many.
func (s *Step) endClaim(r *Record, who Who, kind Kind, reason, failure string) error {
	r.Status, r.Claim, r.Reason = Open, nil, reason
	if failure != "" && s.countFailure(r, failure) {
		kind = Withheld
	}
	return s.save(r, who, kind, r.Reason)
}

// countFailure counts a claim that has failed, and reports whether that has
// parked the task.
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
	r.Reason = fmt.Sprintf("claimed %s without a result, last: %s", times, cut(failure))
	return true
}

// cut is the beginning of a text that may be too long for a reason.
func cut(text string) string {
	if len(text) <= maxFailure {
		return text
	}
	return strings.ToValidUTF8(text[:maxFailure], "") + " ..."
}

// forgetFailures forgets the claims that have failed, if a person makes the task open.
func (r *Record) forgetFailures(who Who) {
	if who.Person() {
		r.FailedClaims = 0
	}
}

// parkedAlready is the error of what a parked task does not allow.
func parkedAlready(r *Record) error {
	return fmt.Errorf(
		"%w: %s is parked: %s; a person can let it be tried again: coppice task retry %[2]s",
		ErrConflict, r.ID, r.Reason,
	)
}
