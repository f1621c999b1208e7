package show

import (
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// AttentionOf describes what is wrong: path and state, the reason and what happens next;
// more faults of a file; the last line of output; and the command that helps.
func AttentionOf(a status.Attention, faults []string, now time.Time, p terminal.Paint) []string {
	if len(faults) > 0 {
		a.Reason, faults = faults[0], faults[1:]
	}
	text := proc.Plain(a.Path) + " " + PaintState(p, a.State, StateWords(a.State))
	if a.Reason != "" {
		text += ": " + proc.Plain(a.Reason)
	}
	if a.NextAt != nil {
		text += fmt.Sprintf("; next start in %s", timespan.Short(max(0, a.NextAt.Sub(now))))
	}
	lines := []string{text}
	for _, fault := range faults {
		lines = append(lines, proc.Plain(fault))
	}
	if a.LastOutput != "" {
		lines = append(lines, p.Dim("| ")+proc.Plain(a.LastOutput))
	}
	return append(lines, p.Dim("-> ")+proc.Plain(a.Command))
}
