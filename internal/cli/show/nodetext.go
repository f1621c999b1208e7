package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
	"github.com/coppice-dev/coppice/supervisor"
)

// questionText returns the question that an agent waits for.
func questionText(n status.Node) string {
	text := n.NeedsInput.ID + ": " + n.NeedsInput.Text
	if more := n.NeedsInput.Open - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return terminal.Cell(text)
}

func uptime(n status.Node) string {
	switch n.State {
	case status.StateRunning, status.StateStopping, status.Degraded:
		return timespan.Short(time.Duration(n.Uptime * float64(time.Second)).Truncate(time.Second))
	}
	return "-"
}

// nextText returns when a node starts again, or why it does not.
func nextText(n status.Node, now time.Time) string {
	switch n.Shown() {
	case status.ShownNeedsInput:
		return questionText(n)
	case status.StateRunning, status.StateStarting:
		return ""
	}
	if at := untilNextStart(n, now); at != "" {
		return withLastExit(n, "in "+at)
	}
	return reasonText(n)
}

// reasonText returns why a node is in its state.
func reasonText(n status.Node) string {
	if n.Kind == "agent" && n.State == status.StateRunning && n.Loop != "" {
		return "its last exit: " + plaintext.Line(exitText(n))
	}
	return withLastExit(n, n.Reason)
}

// exitText describes the last exit of a node.
func exitText(n status.Node) string {
	switch {
	case n.ExitKind != supervisor.Normal.String():
		return n.LastExit
	case n.ExitError == "":
		return "completed"
	}
	return "completed: " + n.ExitError
}

// untilNextStart returns the time until a node starts again; empty if it will not.
func untilNextStart(n status.Node, now time.Time) string {
	if n.NextAt == nil || n.NextAt.IsZero() {
		return ""
	}
	return timespan.Short(max(0, n.NextAt.Sub(now)).Round(100 * time.Millisecond))
}

// withLastExit appends the last exit of a node that does not run.
func withLastExit(n status.Node, text string) string {
	if !n.Failed || n.State == status.StateRunning || n.State == status.StateStarting || n.State == status.Degraded {
		return plaintext.Line(text)
	}
	return strings.TrimSpace(plaintext.Line(text + " (" + n.LastExit + ")"))
}
