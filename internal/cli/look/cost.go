package look

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// NewCost returns the command that shows what calls of language models have used.
func NewCost(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var req cost.Request
	var by string
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Show tokens and dollars of language models",
		Long: `Show what calls of language models have used: tokens, and dollars as the command lines
estimate them. What they do not report is unknown, and never counted as 0.

TOKENS are those that count: input, what was written to a cache, and output. Calls in
progress are in the sums of today with what they have used so far. Days count as a
whole; the ledger keeps them for 400 days.`,
		Example: `  coppice cost
  coppice cost --by task --since 7d
  coppice cost --by day --since 2026-11-01 --until 2026-11-30`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			req.By = cost.By(by)
			return command.Show(s, r.Look, cost.Show, req, costLines)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	r.Flags(cmd)
	cmd.Flags().StringVar(&by, "by", string(cost.ByAgent), "one row for each agent, account, task, pool, model or day")
	cmd.Flags().StringVar(&req.Since, "since", "", "from a `TIME` such as 24h, 7d or 2026-11-01")
	cmd.Flags().StringVar(&req.Until, "until", "", "up to a `TIME`, which is included")
	s.JSONFlag(cmd, "an object with the rows and the total")
	var groups []cobra.Completion
	for _, by := range cost.Groups() {
		groups = append(groups, string(by))
	}
	cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(groups, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// costLines shows a report as a table.
func costLines(r cost.Report, p terminal.Paint, width int) []string {
	if len(r.Rows) == 0 {
		if r.Since != "" {
			return []string{fmt.Sprintf("no call of a language model from %s to %s; coppice cost without flags "+
				"shows all", r.Since, r.Until)}
		}
		return terminal.WrapAll([]string{"no call of a language model has been counted",
			"The calls of Aidefiles are counted, and of agents that run claude, codex, gemini, opencode or copilot. " +
				"coppice ps shows what runs."}, 0, width)
	}
	header := []string{strings.ToUpper(string(r.By)), "CALLS", "TOKENS", "INPUT", "CACHE READ", "OUTPUT", "DOLLARS"}
	var rows [][]string
	for _, row := range r.Rows {
		rows = append(rows, costCells(costName(r.By, row.Name), row))
	}
	rows = append(rows, costCells("total since "+r.Since, r.Total))
	alignRight(header, rows)
	lines := terminal.Table(header, rows, width, func(row, column int, text string) string {
		if row == 0 || row == len(rows) {
			return p.Bold(text)
		}
		return text
	})
	if n := r.Total.Running; n > 0 {
		lines = append(lines, terminal.WrapAll([]string{
			plaintext.Plural(int(n), "call") + " in progress; the sums have what is used so far",
		}, 0, width)...)
	}
	return lines
}

// costName returns the name of a row.
func costName(by cost.By, name string) string {
	switch {
	case name != "":
		return terminal.Cell(name)
	case by == cost.ByModel:
		return "unknown"
	}
	return "none"
}

// costCells returns the cells of a row. The dollars and the tokens say how many calls are missing.
func costCells(name string, r cost.Row) []string {
	cells := []string{name, plaintext.Thousands(r.Calls)}
	for i, n := range []*int64{r.Tokens, r.Input, r.CacheRead, r.Output} {
		calls := r.Calls
		if i > 0 {
			calls = 0 // only the first says how many are unknown
		}
		cells = append(cells, cost.TokensText(n, r.UnknownTokens, calls))
	}
	return append(cells, cost.DollarsText(r.Dollars, r.UnknownDollars, r.Calls))
}

// alignRight pads all columns but the first, so that numbers end below each other.
func alignRight(header []string, rows [][]string) {
	for column := 1; column < len(header); column++ {
		most := ansi.StringWidth(header[column])
		for _, row := range rows {
			most = max(most, ansi.StringWidth(row[column]))
		}
		for _, row := range append([][]string{header}, rows...) {
			row[column] = strings.Repeat(" ", most-ansi.StringWidth(row[column])) + row[column]
		}
	}
}
