package show

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

// GateText returns since when a condition is waited for, how the last check of it has ended, and when the next one
// begins.
func GateText(g task.Gate, now time.Time) string {
	text := "since " + terminal.Clock(g.Since, now)
	if !g.CheckedAt.IsZero() {
		text += fmt.Sprintf("; last check %s: %s", terminal.Clock(g.CheckedAt, now), plaintext.Line(g.Result))
	}
	switch {
	case g.Checking:
		text += "; a check is running"
	case !g.NextAt.IsZero():
		text += "; next check " + terminal.UntilText(&g.NextAt, now)
	}
	return text
}
