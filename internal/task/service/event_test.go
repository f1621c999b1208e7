package service

import (
	"testing"

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
