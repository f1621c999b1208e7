package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// eventLine is an event in a line for people: without its number, and without
// the date if that is today's.
func eventLine(e event.Event, now time.Time, p paint) string {
	at, format := e.Time.Local(), time.TimeOnly
	if at.Format(time.DateOnly) != now.Local().Format(time.DateOnly) {
		format = time.DateTime
	}
	var b strings.Builder
	b.WriteString(p.dim(at.Format(format)) + " " + p.eventType(e.Type, proc.Plain(string(e.Type))))
	if e.Path != "" {
		b.WriteString(" " + p.bold(proc.Plain(e.Path)))
	}
	if e.Incarnation != 0 {
		b.WriteString(p.dim(fmt.Sprintf("#%d", e.Incarnation)))
	}
	if e.Message != "" {
		message := e.Text() // which stands there already
		b.WriteString(" " + proc.Plain(strings.ReplaceAll(message, "\n", " ")))
	}
	if e.Actor != "" && e.Actor != "supervisor" && e.Actor != "controller" { // whose work it is
		b.WriteString(p.dim(" (by " + proc.Plain(e.Actor) + ")"))
	}
	return b.String()
}

// eventType paints the type of an event by what it asks of the reader.
func (p paint) eventType(t event.Type, text string) string {
	_, what, _ := strings.Cut(string(t), ".")
	switch what {
	case "started", "ready", "released", "adopted", "resumed", "recovered", "completed":
		return p.green(text)
	case "restarting", "stopping", "stopped", "suspended", "draining", "compacted", "reset":
		return p.yellow(text)
	case "crashed", "start_failed", "quarantined", "gave_up", "lost", "abandoned", "escalated", "paused", "rejected",
		"failed", "degraded", "dropped",
		"limit_reached":
		return p.red(text)
	}
	return text
}

// describe returns an event as it is stored and in a line; "" if it is not worth one.
func describe(e supervisor.Event) (event.Event, string) {
	entry, text := journal.Translate(e)
	if journal.Nested(e) || entry.Type == event.SupervisorEnded {
		text = ""
	}
	return entry, text
}

// orderLine is an event about an order, as those about agents are shown.
func orderLine(e event.Event, p paint) string {
	return fmt.Sprintf("%s %s %s", proc.Plain(e.Path), p.dim("*"),
		p.eventType(e.Type, proc.Plain(strings.ReplaceAll(e.Text(), "\n", " "))))
}
