package control

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// TestEventTypes: each action of people has an event type of its own.
func TestEventTypes(t *testing.T) {
	got := map[event.Type]event.Type{}
	for action, want := range map[Action]event.Type{
		Start: event.AgentStartRequested, Stop: event.AgentStopRequested, Restart: event.AgentRestartRequested,
		Reset: event.AgentReset, Suspend: event.AgentSuspended, Resume: event.AgentResumed,
	} {
		got[want] = eventTypes[action]
	}
	for want, is := range got {
		if is != want {
			t.Errorf("%s instead of %s", is, want)
		}
	}
}
