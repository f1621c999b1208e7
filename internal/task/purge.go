package task

import (
	"slices"
	"time"
)

// Outdated are the tasks that are ephemeral and were closed before a time, and of which
// no child is open, in the order of their ids.
func (s *State) Outdated(old time.Time) (all []string) {
	for id, e := range s.index.entries {
		if s.isOutdated(e.Record, old) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

func (s *State) isOutdated(r *Record, old time.Time) bool {
	return r != nil && r.Ephemeral && r.closed() && !r.ClosedAt.After(old) && s.index.openCount[r.ID] == 0
}

// Purge removes the first of some tasks that are outdated, as many as a step has room
// for, with their comments, and returns those that are left. What is no longer outdated stays.
func (s *Step) Purge(ids []string, old time.Time) (rest []string) {
	n := 0
	for i, id := range ids {
		rest = ids[i:]
		r := s.state.Record(id)
		if !s.state.isOutdated(r, old) {
			rest = ids[i+1:]
			continue
		}
		// The last comments go first, so that those which are left are whole.
		const least = 4 // ops for a task without comments, and to tell of all
		room := MaxStep - s.Size() - least
		after := *r
		for ; room > 0 && after.Comments > 0; room-- {
			after.Comments--
			s.Writes = append(s.Writes, Write{Part: CommentPart, ID: id, N: after.Comments})
		}
		if after.Comments > 0 {
			s.put(&after)
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
