package show

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// PaintState colours text by state: green for running, yellow for transitions, red for problems.
func PaintState(p terminal.Paint, state, text string) string {
	switch status.ToneOf(state) {
	case status.Good:
		return p.Green(text)
	case status.Busy, status.Ask:
		return p.Yellow(text)
	case status.Bad:
		return p.Red(text)
	}
	return p.Dim(text)
}

// PoolText summarizes the size of a pool in a line.
func PoolText(p pool.Info) string {
	return terminal.Cell(plaintext.Line(p.Text()))
}

// CheckText explains the size of a pool by the last result of its check.
func CheckText(p pool.Info, now time.Time) string {
	ago := ""
	if p.CheckedAt != nil {
		ago = fmt.Sprintf(", %s ago", timespan.Short(max(0, now.Sub(*p.CheckedAt))))
	}
	switch {
	case p.Retired:
		return "its check is not asked"
	case p.Error != "" && !p.Answered:
		return "no check has answered yet"
	case p.Error != "":
		return fmt.Sprintf("the last one that has answered said %d", p.Answer)
	case p.Answered && p.CheckedAt == nil:
		return "it has no check"
	case p.Answered:
		return fmt.Sprintf("its check said %d%s", p.Answer, ago)
	case p.Checking:
		return "its first check runs"
	}
	return "its check is not asked"
}

// AttentionOf describes a problem: path, state, reason and next start; further errors of a file;
// the last line of output; and the command that helps.
func AttentionOf(a status.Attention, faults []string, now time.Time, p terminal.Paint) []string {
	if len(faults) > 0 {
		a.Reason, faults = faults[0], faults[1:]
	}
	text := plaintext.Line(a.Path) + " " + PaintState(p, a.State, status.StateWords(a.State))
	if a.Reason != "" {
		text += ": " + plaintext.Line(a.Reason)
	}
	if a.NextAt != nil {
		text += fmt.Sprintf("; next start in %s", timespan.Short(max(0, a.NextAt.Sub(now))))
	}
	lines := []string{text}
	for _, fault := range faults {
		lines = append(lines, plaintext.Line(fault))
	}
	if a.LastOutput != "" {
		lines = append(lines, p.Dim("| ")+plaintext.Line(a.LastOutput))
	}
	return append(lines, p.Dim("-> ")+plaintext.Line(a.Command))
}

// StateCounts returns the number of agents in each state.
func StateCounts(summary map[string]int, p terminal.Paint) (counts []string) {
	for _, state := range slices.Sorted(maps.Keys(summary)) {
		if n := summary[state]; n > 0 {
			text := plaintext.Line(fmt.Sprintf("%d %s", n, status.StateWords(state)))
			counts = append(counts, PaintState(p, state, text))
		}
	}
	return counts
}
