package daemon

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
)

// TestEventTypes: each action of people has an event type of its own.
func TestEventTypes(t *testing.T) {
	got := map[event.Type]event.Type{}
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
