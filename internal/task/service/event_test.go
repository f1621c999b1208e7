package service

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/task"
)

// Each kind of Event has its own event type in the log.
func TestEventTypes(t *testing.T) {
	for kind, want := range map[task.Kind]event.Type{
		task.Created: event.TaskCreated, task.Edited: event.TaskEdited, task.Commented: event.TaskCommented,
		task.Claimed: event.TaskClaimed, task.Released: event.TaskReleased, task.Ended: event.TaskClosed,
		task.HeldUp: event.TaskBlocked, task.Divided: event.TaskDecomposed, task.Escalated: event.TaskEscalated,
		task.Withheld: event.TaskParked, task.Reopened: event.TaskReopened, task.Imported: event.TaskImported,
		task.Purged: event.TaskPurged, task.PoolIsPaused: event.TaskPoolPaused, task.PoolIsOpen: event.TaskPoolResumed,
	} {
		if got := logEntry(task.Event{Kind: kind}).Type; got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

// The event of an attempt that has ended says when it has begun.
func TestAttemptEvent(t *testing.T) {
	began := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	e := logEntry(task.Event{Kind: task.Released, Attempt: &task.Attempt{Number: 2, BeganAt: began},
		Held: &task.Holder{By: "t/a", Incarnation: 3}})
	var data struct {
		Attempt int       `json:"attempt"`
		BeganAt time.Time `json:"attempt_began_at"`
	}
	if err := e.Decode(&data); err != nil || data.Attempt != 2 || !data.BeganAt.Equal(began) || e.Incarnation != 3 {
		t.Errorf("%+v, %v: %v", data, err, e)
	}
}
