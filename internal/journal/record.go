package journal

import (
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// Event writes an event of a supervisor, with the record that follows from it. It is called from one
// goroutine.
func (j *Journal) Event(e supervisor.Event) {
	entry, _ := Translate(e)
	r, ops := j.records(e)
	j.Log.Append(entry, ops...)
	if r == nil {
		return
	}
	h := e.Header()
	j.Note(h.Path(), r)
	switch e.(type) {
	case supervisor.ChildStarted, supervisor.ChildStartFailed:
		j.started(h.Path(), h.Incarnation, j.Remembers(h.Path()))
	}
}

// records returns the record of a child after an event about it, nil if the event
// changes none, and the operations to write with the event. Both follow from the
// event alone: see supervisor.Snapshot.
func (j *Journal) records(e supervisor.Event) (*agent.Record, []store.Op) {
	h := e.Header()
	switch e.(type) {
	case supervisor.ChildReturned, supervisor.ChildMisbehaved: // they change no record
		return nil, nil
	case supervisor.LimitLifted:
		if h.ID == "" {
			return nil, []store.Op{selfOp(h.Supervisor, h.After.Self)}
		}
	}
	if h.ID == "" {
		return nil, nil
	}
	r, ops := j.recordOf(h)
	return r, append(ops, j.Features(e)...)
}

// recordOf returns the record of a child after an event about it, and the operations that write it.
func (j *Journal) recordOf(h supervisor.EventHeader) (*agent.Record, []store.Op) {
	path, saved := h.Path(), h.After.Child
	switch {
	case !j.Wanted(path) && (!h.After.Listed || saved.State == supervisor.Stopped): // withdrawn
		r := j.Removed(path, h.Incarnation)
		return r, []store.Op{r.Op()}
	case !h.After.Listed: // temporary; the next controller must know that it has ended
		saved = supervisor.Saved{Incarnation: h.Incarnation, State: supervisor.Stopped,
			Reason: supervisor.ReasonTemporary}
	}
	succeeded := saved.Incarnation > h.Incarnation
	r := agent.NewRecord(path, h.Incarnation, succeeded || !isAlive(saved.State), saved)
	if succeeded { // the event of its successor follows
		r.State, r.StartedAt = supervisor.Waiting.String(), time.Time{}
	}
	if !r.Ended {
		r.Hash = j.Hash(path, h.Incarnation)
	}
	return r, []store.Op{r.Op(), selfOp(h.Supervisor, h.After.Self)}
}

// isAlive reports whether a child in this state has an incarnation.
func isAlive(s supervisor.State) bool {
	return s == supervisor.Running || s == supervisor.Starting || s == supervisor.Stopping
}

// selfOp writes the counters of a supervisor. They have a key of their own,
// because the supervisor's parent writes the rest of its record.
func selfOp(path string, self supervisor.SavedSelf) store.Op {
	r := &agent.Record{
		Path: path, State: supervisor.Running.String(),
		Self: &agent.SelfRecord{Counted: self.Counted, Paused: self.Paused, Probing: self.Probing},
	}
	op := r.Op()
	op.Key += "-self"
	return op
}
