package daemon

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/work"
)

// TestEventTypes: what becomes of what happens to tasks, and of what people ask for.
func TestEventTypes(t *testing.T) {
	got := map[event.Type]event.Type{}
	for kind, want := range map[work.Kind]event.Type{
		work.Created: event.TaskCreated, work.Edited: event.TaskEdited, work.Commented: event.TaskCommented,
		work.Claimed: event.TaskClaimed, work.Released: event.TaskReleased, work.Ended: event.TaskClosed,
		work.Withheld: event.TaskParked, work.Reopened: event.TaskReopened, work.Imported: event.TaskImported,
		work.Purged: event.TaskPurged,
	} {
		got[want] = taskEvent(work.Event{Kind: kind}).Type
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
