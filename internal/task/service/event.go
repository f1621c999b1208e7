package service

import (
	"fmt"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/task"
)

// logEntry is the log's entry of an event of a task.
func logEntry(e task.Event) event.Event {
	t := e.Task
	entry := event.Event{Actor: e.By.String(), Path: e.By.Path, Incarnation: e.By.Incarnation}
	if e.Held != nil && e.Held.Incarnation > 0 {
		entry.Path, entry.Incarnation = e.Held.By, e.Held.Incarnation
	}
	what := fmt.Sprintf("%s (%s)", t.ID, mail.Title(t.Title))
	switch e.Kind {
	case task.Created:
		entry.Type, entry.Message = event.TaskCreated, fmt.Sprintf("%s was made", what)
	case task.Commented:
		entry.Type, entry.Message = event.TaskCommented, fmt.Sprintf("something was said about %s", what)
	case task.Claimed:
		entry.Type, entry.Message = event.TaskClaimed, fmt.Sprintf("%s was claimed", what)
	case task.Released:
		entry.Type, entry.Message = event.TaskReleased, fmt.Sprintf("%s is open again", what)
	case task.Ended:
		entry.Type, entry.Message = event.TaskClosed, fmt.Sprintf("%s was closed: %s", what, t.Outcome)
	case task.Withheld:
		entry.Type, entry.Message = event.TaskParked, fmt.Sprintf("%s is parked", what)
	case task.Reopened:
		entry.Type, entry.Message = event.TaskReopened, fmt.Sprintf("%s was opened again", what)
	case task.Imported:
		entry.Type, entry.Message = event.TaskImported, fmt.Sprintf("%d tasks were imported", e.Of)
		return entry.With(map[string]any{"count": e.Of})
	case task.Purged:
		entry.Type, entry.Message = event.TaskPurged, fmt.Sprintf("%d tasks that had ended long ago were removed", e.Of)
		return entry.With(map[string]any{"count": e.Of})
	default:
		entry.Type, entry.Message = event.TaskEdited, fmt.Sprintf("%s was changed", what)
	}
	if note := mail.Title(e.Note); note != "" {
		entry.Message += ": " + note
	}
	data := map[string]any{"id": t.ID, "title": mail.Title(t.Title), "status": t.Status, "priority": t.Priority,
		"type": t.Type}
	for name, value := range map[string]string{"pool": t.Pool, "assignee": t.Assignee, "parent": t.Parent,
		"origin": t.Origin, "outcome": string(t.Outcome)} {
		if value != "" {
			data[name] = value
		}
	}
	if len(t.Labels) > 0 {
		data["labels"] = t.Labels
	}
	return entry.With(data)
}
