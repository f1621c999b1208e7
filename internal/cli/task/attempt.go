package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
)

// attemptLines lists attempts. The comments tell more of them. What they have used is left out if it is known of none.
func attemptLines(attempts []task.Attempt, now time.Time, p terminal.Paint) []string {
	header := []string{"ATTEMPT", "BEGAN", "TOOK", "BY"}
	used := slices.ContainsFunc(attempts, func(a task.Attempt) bool { return a.Used != nil })
	if used {
		header = append(header, "CALLS", "TOKENS", "DOLLARS")
	}
	var rows [][]string
	for _, a := range attempts {
		row := []string{fmt.Sprint(a.Number), terminal.Clock(a.BeganAt, now), terminal.Age(a.BeganAt, a.EndedAt),
			terminal.Cell(a.By)}
		if used {
			row = append(row, usedCells(a.Used)...)
		}
		rows = append(rows, append(row, terminal.Cell(a.Outcome.String())))
	}
	lines := terminal.Table(append(header, "OUTCOME"), rows, 0, terminal.BoldHeader(p))
	for _, a := range attempts {
		evidence := a.Outcome.Evidence.Lines()
		if len(evidence) == 0 {
			continue
		}
		lines = append(lines, "", p.Dim(fmt.Sprintf("evidence of attempt %d:", a.Number)))
		for _, text := range evidence {
			lines = append(lines, terminal.PlainLines(text)...)
		}
	}
	return lines
}

// usedCells returns the cells of what an attempt has used; nil is unknown.
func usedCells(u *task.Use) []string {
	if u == nil {
		return []string{"unknown", "unknown", "unknown"}
	}
	return []string{
		plaintext.Thousands(u.Calls), cost.TokensText(u.Tokens, u.UnknownTokens, u.Calls),
		cost.DollarsText(u.Dollars, u.UnknownDollars, u.Calls),
	}
}
