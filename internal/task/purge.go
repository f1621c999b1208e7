package task

import (
	"slices"
	"time"
)

// Outdated returns the ids of closed ephemeral tasks without open children that were closed before
// a time, sorted.
func (s *State) Outdated(old time.Time) (all []string) {
	for id, e := range s.index.entries {
		if s.index.isOutdated(e.Record, old) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

func (x *Index) isOutdated(r *Record, old time.Time) bool {
	return r != nil && r.Ephemeral && r.closed() && !r.ClosedAt.After(old) && x.openCount[r.ID] == 0
}

// hasAttempts reports whether attempts are stored of a task that is not claimed.
func (r *Record) hasAttempts() bool { return r.OldestAttempt > 0 && r.OldestAttempt <= r.Claims }

// Purge removes outdated tasks with their comments, as many as fit into a step. It returns the
// ids that remain. Tasks that are no longer outdated are skipped.
func (s *Step) Purge(ids []string, old time.Time) (rest []string) {
	n := 0
	for i, id := range ids {
		rest = ids[i:]
		r := s.state.Record(id)
		if !s.state.index.isOutdated(r, old) {
			rest = ids[i+1:]
			continue
		}
		// The last comments go first, so the remaining ones are numbered without gaps.
		const least = 4 // ops for a task without comments, and for the event
		room := MaxStep - s.Size() - least
		after := *r
		for ; room > 0 && after.Comments > 0; room-- {
			after.Comments--
			s.Writes = append(s.Writes, Write{Part: CommentPart, ID: id, N: after.Comments})
		}
		for ; room > 0 && after.hasAttempts(); room-- {
			s.Writes = append(s.Writes, Write{Part: AttemptPart, ID: id, N: after.OldestAttempt})
			after.OldestAttempt++
		}
		if after.Comments > 0 || after.hasAttempts() {
			s.set(after.ID, &after)
			break
		}
		if room < 0 {
			break
		}
		s.write(TextPart, id, nil)
		s.write(ImportedPart, id, nil)
		s.set(id, nil)
		n++
		rest = ids[i+1:]
	}
	if n > 0 {
		s.Emit(Event{Kind: Purged, By: Actor{Name: controller}, Count: n})
	}
	return rest
}
