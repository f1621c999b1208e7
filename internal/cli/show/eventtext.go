package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// EventLine returns an event as a line for people: without its number, and without
// the date if that is today's.
func EventLine(e event.Event, now time.Time, p terminal.Paint) string {
	var b strings.Builder
	b.WriteString(p.Dim(terminal.Clock(e.Time, now)) + " " + PaintEvent(p, e.Type, proc.Plain(string(e.Type))))
	if e.Path != "" {
		b.WriteString(" " + p.Bold(proc.Plain(e.Path)))
	}
	if e.Incarnation != 0 {
		b.WriteString(p.Dim(fmt.Sprintf("#%d", e.Incarnation)))
	}
	if e.Message != "" {
		b.WriteString(" " + proc.Plain(strings.ReplaceAll(e.Text(), "\n", " ")))
	}
	if e.Actor != "" && e.Actor != "supervisor" && e.Actor != "controller" { // whose work it is
		b.WriteString(p.Dim(" (by " + proc.Plain(e.Actor) + ")"))
	}
	return b.String()
}

// PaintEvent colours text by the type of an event: green is good, yellow passes, red needs a look.
func PaintEvent(p terminal.Paint, t event.Type, text string) string {
	_, what, _ := strings.Cut(string(t), ".")
	switch what {
	case "started", "ready", "released", "adopted", "resumed", "recovered", "completed":
		return p.Green(text)
	case "restarting", "stopping", "stopped", "suspended", "draining", "compacted", "reset":
		return p.Yellow(text)
	case "crashed", "start_failed", "quarantined", "gave_up", "lost", "abandoned", "escalated", "paused", "rejected",
		"failed", "degraded", "dropped", "limit_reached":
		return p.Red(text)
	}
	return text
}

// describe returns an event as it is stored and in words; "" if it is not worth a line.
func describe(e supervisor.Event) (event.Event, string) {
	entry, text := journal.Translate(e)
	if journal.Nested(e) || entry.Type == event.SupervisorEnded {
		text = ""
	}
	return entry, text
}

// SupervisorLine returns an event of a supervisor as "PATH * TEXT"; "" if it is not worth a line.
func SupervisorLine(e supervisor.Event, p terminal.Paint) string {
	entry, text := describe(e)
	if text == "" {
		return ""
	}
	return line(entry.Path, p.Dim("*"), PaintEvent(p, entry.Type, proc.Plain(text)))
}

// OrderLine returns an event about an order in the form of those about agents.
func OrderLine(e event.Event, p terminal.Paint) string {
	return line(e.Path, p.Dim("*"), PaintEvent(p, e.Type, proc.Plain(strings.ReplaceAll(e.Text(), "\n", " "))))
}

// OutputLine returns a line of output, which is safe to show, as "PATH | TEXT".
func OutputLine(path, text string, p terminal.Paint) string { return line(path, p.Dim("|"), text) }

func line(path, mark, text string) string { return proc.Plain(path) + " " + mark + " " + text }
