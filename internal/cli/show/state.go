package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// States of nodes in the API that more than colours depend on.
const (
	StateRunning   = "running"
	StateStarting  = "starting"
	StateStopping  = "stopping"
	StateStopped   = "stopped"
	StateWaiting   = "waiting"
	stateSuspended = "suspended"
	stateDegraded  = status.Degraded
)

// States shown instead of running, where they matter more.
const (
	Draining   = "draining"    // finishing its work
	NeedsInput = "needs input" // waiting for a person
	CrashLoop  = "crash loop"  // fails repeatedly
	GivenUp    = "given up"    // its limit was reached
)

// State returns the state of a node to show to people.
func State(n status.Node) string {
	switch {
	case n.Aide != nil && n.State == StateStopped:
		return n.Aide.State // idle, done, stopped
	case n.Loop == status.CrashLoop:
		return CrashLoop
	case n.State != StateRunning:
	case n.NeedsInput != nil:
		return NeedsInput
	case n.Drain != nil:
		return Draining
	}
	return StateWords(n.State)
}

// PaintState colours text by state: green for running, yellow for transitions, red for problems.
func PaintState(p terminal.Paint, state, text string) string {
	switch StateWords(state) {
	case StateRunning:
		return p.Green(text)
	case StateStarting, StateStopping, "restarting", "waiting", Draining, NeedsInput, stateDegraded:
		return p.Yellow(text)
	case "quarantined", GivenUp, "paused", CrashLoop, "restart loop", "rejected":
		return p.Red(text)
	}
	return p.Dim(text)
}

// StateWords returns a state of the API as words.
func StateWords(state string) string { return strings.ReplaceAll(state, "_", " ") }

// PoolText summarizes the size of a pool in a line.
func PoolText(p pool.Info) string {
	if p.Retired {
		return fmt.Sprintf("no longer in the file, %d live, %d to finish", p.Instances, p.Draining)
	}
	text := fmt.Sprintf("%d wanted (%d..%d), %d live", p.Size, p.Min, p.Max, p.Instances)
	if p.Draining > 0 {
		text += fmt.Sprintf(", %d to finish", p.Draining)
	}
	if p.Booting {
		text += ", on_boot runs"
	}
	if p.Error != "" {
		text += "; the check fails: " + p.Error
	}
	return terminal.Cell(plaintext.Line(text))
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
	text := plaintext.Line(a.Path) + " " + PaintState(p, a.State, StateWords(a.State))
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
			counts = append(counts, PaintState(p, state, plaintext.Line(fmt.Sprintf("%d %s", n, StateWords(state)))))
		}
	}
	return counts
}
