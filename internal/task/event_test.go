package task

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// TestEventTypes: each kind of Event has an event type of its own in the log.
func TestEventTypes(t *testing.T) {
	for kind, want := range map[Kind]event.Type{
		Created: event.TaskCreated, Edited: event.TaskEdited, Commented: event.TaskCommented,
		Claimed: event.TaskClaimed, Released: event.TaskReleased, Ended: event.TaskClosed,
		Withheld: event.TaskParked, Reopened: event.TaskReopened, Imported: event.TaskImported,
		Purged: event.TaskPurged,
	} {
		if got := logEntry(Event{Kind: kind}).Type; got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}
