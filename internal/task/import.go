package task

import "cmp"

// NewImported makes a record of a task that an import has brought. before is the record that
// it replaces; nil if there is none.
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

// Import puts a record that Bring has made in the place of the one before. kept is what
// else the import has said of the task; nil if that is written already.
func (s *Step) Import(r, before *Record, kept []byte) error {
	if before == nil {
		if err := s.state.checkCapacity(); err != nil {
			return err
		}
		s.state.number++
		r.Number = s.state.number
	}
	if err := r.Check(); err != nil {
		return err
	}
	s.put(r)
	if err := s.refuseCycle(r.ID); err != nil {
		return err
	}
	if before != nil { // the text is in what the import has brought
		s.write(TextPart, r.ID, nil)
	}
	if kept != nil {
		s.write(ImportedPart, r.ID, kept)
	}
	return nil
}

// keepLocal keeps what is a task's own when a newer bead comes.
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
	switch {
	case r.FailedClaims > 0 || before.FailedClaims == 0:
	case before.Status == Parked && r.Status == Blocked:
		r.Status, r.Reason, r.FailedClaims = Parked, before.Reason, before.FailedClaims
	case before.Status != Parked:
		r.FailedClaims = before.FailedClaims
	}
	if before.Claim != nil && !r.closed() { // actor does it goes on
		r.Status, r.Claim, r.Assignee = before.Status, before.Claim, before.Assignee
	}
}
