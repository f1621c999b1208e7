package cli

import (
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/supervisor"
)

// describe returns an event as it is stored and in a line; "" if it is not worth one.
func describe(e supervisor.Event) (event.Event, string) {
	entry, text := daemon.Translate(e)
	if daemon.Nested(e) || entry.Type == event.SupervisorEnded {
		text = ""
	}
	return entry, text
}
