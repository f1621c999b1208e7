package task

import "cmp"

// NewImported returns the record of an imported task. before is the record that it replaces; nil
// if there is none.
func NewImported(t Task, before *Record) *Record {
	r := &Record{Task: t, Imported: true}
	if before != nil {
		r.keepLocal(before)
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = now()
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = r.CreatedAt
	}
	return r
}

// Import puts a record from NewImported in the place of the one before. kept is the rest of the
// imported bead; nil if it is stored already.
func (s *Step) Import(r, before *Record, kept []byte) error {
	if before == nil {
		if err := s.state.index.checkCapacity(); err != nil {
			return err
		}
		s.state.ids.number++
		r.Number = s.state.ids.number
	}
	if err := r.Check(); err != nil {
		return err
	}
	s.set(r.ID, r)
	if err := s.state.index.checkCycle(r.ID); err != nil {
		return err
	}
	if before != nil { // the imported part holds the new text
		s.write(TextPart, r.ID, nil)
	}
	if kept != nil {
		s.write(ImportedPart, r.ID, kept)
	}
	return nil
}

// keepLocal keeps the fields of the old record that a bead does not have.
func (r *Record) keepLocal(before *Record) {
	r.Number, r.Key, r.CommentKeys, r.Claims, r.Comments = before.Number, before.Key, before.CommentKeys, before.Claims,
		before.Comments
	if r.Pool == "" {
		r.Pool = before.Pool
	}
	if r.Origin == "" {
		r.Origin, r.Ephemeral = before.Origin, before.Ephemeral
	}
	r.MaxClaims = cmp.Or(r.MaxClaims, before.MaxClaims)
	r.OldestAttempt, r.Retries, r.LastAttemptAt = before.OldestAttempt, before.Retries, before.LastAttemptAt
	r.IfDependencyFails = before.IfDependencyFails
	r.Decomposed, r.StoppedBy = before.Decomposed, before.StoppedBy
	r.Fixes, r.Mode = cmp.Or(r.Fixes, before.Fixes), cmp.Or(r.Mode, before.Mode)
	if r.Status == before.Status {
		r.Condition, r.Question = before.Condition, before.Question
		r.BlockedAt, r.LastEvent = before.BlockedAt, before.LastEvent
	}
	switch {
	case r.FailedClaims > 0 || before.FailedClaims == 0:
	case before.Status == Parked && r.Status == Blocked:
		r.Status, r.Reason, r.FailedClaims = Parked, before.Reason, before.FailedClaims
	case before.Status != Parked:
		r.FailedClaims = before.FailedClaims
	}
	if before.Claim != nil && !r.closed() { // the claim continues
		r.Status, r.Claim, r.Assignee = before.Status, before.Claim, before.Assignee
	}
}
