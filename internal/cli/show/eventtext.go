package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/journal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/supervisor"
)

// EventLine formats an event for people, without its number. The date is left out if it is today.
func EventLine(e event.Event, now time.Time, p terminal.Paint) string {
	var b strings.Builder
	b.WriteString(p.Dim(terminal.Clock(e.Time, now)) + " " + PaintEvent(p, e.Type, plaintext.Line(string(e.Type))))
	if e.Path != "" {
		b.WriteString(" " + p.Bold(plaintext.Line(e.Path)))
	}
	if e.Incarnation != 0 {
		b.WriteString(p.Dim(fmt.Sprintf("#%d", e.Incarnation)))
	}
	if e.Message != "" {
		b.WriteString(" " + plaintext.Line(strings.ReplaceAll(e.Text(), "\n", " ")))
	}
	if e.Actor != "" && e.Actor != "supervisor" && e.Actor != "controller" { // the usual actors
		b.WriteString(p.Dim(" (by " + plaintext.Line(e.Actor) + ")"))
	}
	return b.String()
}

// PaintEvent colours text by the severity of an event: green for good, yellow for changes, red for problems.
func PaintEvent(p terminal.Paint, t event.Type, text string) string {
	switch t.Severity() {
	case event.Good:
		return p.Green(text)
	case event.Change:
		return p.Yellow(text)
	case event.Problem:
		return p.Red(text)
	}
	return text
}

// describe translates an event to its stored form and a text, which is empty if the event is not
// worth a line.
func describe(e supervisor.Event) (event.Event, string) {
	entry, text := journal.Translate(e)
	if journal.Nested(e) || entry.Type == event.SupervisorEnded {
		text = ""
	}
	return entry, text
}

// SupervisorLine formats an event as "PATH * TEXT"; it is empty if the event is not worth a line.
func SupervisorLine(e supervisor.Event, p terminal.Paint) string {
	entry, text := describe(e)
	if text == "" {
		return ""
	}
	return line(entry.Path, p.Dim("*"), PaintEvent(p, entry.Type, plaintext.Line(text)))
}

// OrderLine formats an event of an order like one of an agent.
func OrderLine(e event.Event, p terminal.Paint) string {
	return line(e.Path, p.Dim("*"), PaintEvent(p, e.Type, plaintext.Line(strings.ReplaceAll(e.Text(), "\n", " "))))
}

// OutputLine formats a line of output as "PATH | TEXT"; text must be safe to show.
func OutputLine(path, text string, p terminal.Paint) string { return line(path, p.Dim("|"), text) }

func line(path, mark, text string) string { return plaintext.Line(path) + " " + mark + " " + text }
