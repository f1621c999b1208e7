package service

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/task"
)

// entries maps kinds of events to the types and messages of log entries. The argument of a message
// is a task, or a number of tasks.
var entries = map[task.Kind]struct {
	eventType event.Type
	message   string
}{
	task.Created:   {event.TaskCreated, "%v was created"},
	task.Edited:    {event.TaskEdited, "%v was edited"},
	task.Commented: {event.TaskCommented, "%v has a new comment"},
	task.Claimed:   {event.TaskClaimed, "%v was claimed"},
	task.Released:  {event.TaskReleased, "%v is back in the queue"},
	task.HeldUp:    {event.TaskBlocked, "%v is blocked"},
	task.Divided:   {event.TaskDecomposed, "%v was divided"},
	task.Escalated: {event.TaskEscalated, "%v waits for a person"},
	task.Ended:     {event.TaskClosed, "%v was closed"},
	task.Withheld:  {event.TaskParked, "%v was parked"},
	task.Reopened:  {event.TaskReopened, "%v was reopened"},

	task.PoolIsPaused: {event.TaskPoolPaused, "the tasks of the pool %v are paused"},
	task.PoolIsOpen:   {event.TaskPoolResumed, "the tasks of the pool %v are resumed"},

	task.Imported: {event.TaskImported, "%v tasks were imported"},
	task.Purged:   {event.TaskPurged, "%v old closed tasks were removed"},
}

// logEntry returns the log entry of an event.
func logEntry(e task.Event) event.Event {
	t := e.Task
	entry := event.Event{
		Type: entries[e.Kind].eventType, Actor: e.By.String(), Path: e.By.Path, Incarnation: e.By.Incarnation,
	}
	if e.Held != nil && e.Held.Incarnation > 0 {
		entry.Path, entry.Incarnation = e.Held.By, e.Held.Incarnation
	}
	if p := e.Pool; p != nil {
		entry.Message = fmt.Sprintf(entries[e.Kind].message, p.Name)
		if e.Note != "" {
			entry.Message += ": " + mail.Title(e.Note)
		}
		data := map[string]any{"pool": p.Name, "state": p.State}
		if !p.ProbeAt.IsZero() {
			data["probe_at"] = p.ProbeAt
		}
		return entry.With(data)
	}
	if e.Kind == task.Imported || e.Kind == task.Purged {
		entry.Message = fmt.Sprintf(entries[e.Kind].message, e.Count)
		return entry.With(map[string]any{"count": e.Count})
	}
	entry.Message = fmt.Sprintf(entries[e.Kind].message, fmt.Sprintf("%s (%s)", t.ID, mail.Title(t.Title)))
	if e.Kind == task.Ended {
		entry.Message += ": " + string(t.Outcome)
	}
	if note := mail.Title(e.Note); note != "" {
		entry.Message += ": " + note
	}
	data := map[string]any{
		"id": t.ID, "title": mail.Title(t.Title), "status": t.Status, "priority": t.Priority, "type": t.Type,
	}
	for name, value := range map[string]string{
		"pool": t.Pool, "assignee": t.Assignee, "parent": t.Parent, "origin": t.Origin, "outcome": string(t.Outcome),
	} {
		if value != "" {
			data[name] = value
		}
	}
	if a := e.Attempt; a != nil {
		data["attempt"], data["attempt_began_at"], data["attempt_outcome"] = a.Number, a.BeganAt, a.Outcome.Kind
		if a.Outcome.Context != nil {
			data["obstacle"] = a.Outcome.Context.Obstacle.Kind
		}
		if evidence := a.Outcome.Evidence.Data(); evidence != nil {
			data["evidence"] = evidence
		}
	}
	if t.Status == task.Deferred && !t.NotBefore.IsZero() {
		data["not_before"] = t.NotBefore
	}
	if len(t.Labels) > 0 {
		data["labels"] = t.Labels
	}
	return entry.With(data)
}
