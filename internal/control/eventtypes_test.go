package control

import (
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// Each action has its own event type.
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
