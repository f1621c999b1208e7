package daemon

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/task"
)

// TestEventTypes: what becomes of what happens to tasks, and of what people ask for.
func TestEventTypes(t *testing.T) {
	got := map[event.Type]event.Type{}
	for kind, want := range map[task.Kind]event.Type{
		task.Created: event.TaskCreated, task.Edited: event.TaskEdited, task.Commented: event.TaskCommented,
		task.Claimed: event.TaskClaimed, task.Released: event.TaskReleased, task.Ended: event.TaskClosed,
		task.Withheld: event.TaskParked, task.Reopened: event.TaskReopened, task.Imported: event.TaskImported,
		task.Purged: event.TaskPurged,
	} {
		got[want] = taskEvent(task.Event{Kind: kind}).Type
	}
	for action, want := range map[api.Action]event.Type{
		api.Start: event.AgentStartRequested, api.Stop: event.AgentStopRequested, api.Restart: event.AgentRestartRequested,
		api.Reset: event.AgentReset, api.Suspend: event.AgentSuspended, api.Resume: event.AgentResumed,
	} {
		got[want] = requested(action)
	}
	for want, is := range got {
		if is != want {
			t.Errorf("%s instead of %s", is, want)
		}
	}
}
