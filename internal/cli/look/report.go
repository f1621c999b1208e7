package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/report"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// NewReport returns the command that sums up a period.
func NewReport(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var since string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report what happened, as of a night",
		Long: `Report what happened since a time: what needs a person now, which tasks were completed,
which were tried and why they are not done, which wait, what it cost, and how often
agents started and failed.

It shows 50 entries of each list. The exit code is 0 also if things have failed.`,
		Example: `  coppice report
  coppice report --since 2026-11-27T18:00:00
  coppice report --since 7d --markdown > report.md`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			now := time.Now()
			from, err := parseSince(since, now)
			switch {
			case err != nil:
				return command.UsageError(err)
			case !from.Before(now):
				return command.Usagef("--since is %.100q, which is not in the past", since)
			}
			var gathered report.Gathered
			err = r.Look(func(ctx context.Context, c *api.Client) (err error) {
				gathered, err = report.Gather(ctx, c, from, now)
				return err
			})
			if err != nil {
				return err
			}
			made := report.New(gathered)
			if markdown {
				_, err := io.WriteString(s.Out, made.Markdown())
				return err
			}
			return s.Print(made, func(p terminal.Paint, width int) []string { return reportLines(made, p, width) })
		},
	}
	r.Flags(cmd)
	cmd.Flags().StringVar(&since, "since", "24h", "from a `TIME` such as 12h, 7d or 2026-11-27T18:00:00")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print Markdown, as for an issue")
	s.JSONFlag(cmd, "one object")
	cmd.MarkFlagsMutuallyExclusive("markdown", "json")
	return cmd
}

// reportPage collects the lines of a report.
type reportPage struct {
	p     terminal.Paint
	width int
	now   time.Time
	lines []string
}

// reportLines shows a report for people.
func reportLines(r report.Report, p terminal.Paint, width int) []string {
	page := &reportPage{p: p, width: width, now: r.Until}
	page.add(2, p.Bold(plaintext.Line(r.Project))+fmt.Sprintf(" since %s, %s: %s", terminal.Clock(r.Since, r.Until),
		timespan.Short(r.Until.Sub(r.Since)), r.Summary()))
	if r.Needs.Total > 0 {
		page.heading("needs a person", r.Needs.Total)
		for _, n := range r.Needs.Shown {
			for i, line := range show.AttentionOf(attentionOf(n), nil, r.Until, p) {
				page.add(6, strings.Repeat("  ", 1+min(i, 1))+line)
			}
		}
		page.more(r.Needs.More(), r.Needs.AtLeast)
	}
	page.closed("completed", r.Completed)
	page.closed("cancelled", r.Cancelled)
	page.tried(r.Tried)
	page.waiting(r.Waiting)
	page.cost(r.Cost)
	page.runs(r.Runs)
	return page.lines
}

func attentionOf(n report.Need) status.Attention {
	a := status.Attention{Path: n.Subject, State: n.State, Reason: n.Text, Command: n.Command}
	if !n.NextAt.IsZero() {
		a.NextAt = &n.NextAt
	}
	return a
}

// add adds a line, which is wrapped with an indent.
func (r *reportPage) add(hang int, line string) {
	r.lines = append(r.lines, terminal.WrapAll([]string{line}, hang, r.width)...)
}

func (r *reportPage) heading(title string, n int) {
	r.lines = append(r.lines, "", r.p.Bold(fmt.Sprintf("%s (%s)", title, plaintext.Thousands(int64(n)))))
}

func (r *reportPage) more(n int, atLeast bool) {
	if n > 0 {
		r.add(2, "  "+r.p.Dim("and "+report.MoreText(n, atLeast)))
	}
}

// table adds rows below a header, indented.
func (r *reportPage) table(header []string, rows [][]string) {
	width := r.width
	if width > 2 {
		width -= 2
	}
	for _, line := range terminal.Table(header, rows, width, terminal.BoldHeader(r.p)) {
		r.lines = append(r.lines, "  "+line)
	}
}

// field adds a line below a task, unless it is empty.
func (r *reportPage) field(label, text string) {
	if text != "" {
		r.add(16, "    "+r.p.Dim(fmt.Sprintf("%-12s", label))+plaintext.Line(text))
	}
}

func (r *reportPage) closed(title string, l report.List[report.Task]) {
	if l.Total == 0 {
		return
	}
	r.heading(title, l.Total)
	var rows [][]string
	for _, t := range l.Shown {
		rows = append(rows, []string{terminal.Cell(t.ID), terminal.Clock(t.EndedAt, r.now),
			terminal.Cell(cmp.Or(t.By, "-")), cmp.Or(t.Tries(), "-"),
			terminal.Cell(cmp.Or(t.Change.String(), "-")), terminal.Cell(t.Title)})
	}
	r.table([]string{"ID", "AT", "BY", "ATTEMPTS", "CHANGE", "TITLE"}, rows)
	r.more(l.More(), l.AtLeast)
}

func (r *reportPage) tried(l report.List[report.Task]) {
	if l.Total == 0 {
		return
	}
	r.heading("tried and not done", l.Total)
	for _, t := range l.Shown {
		r.add(4, fmt.Sprintf("  %s  %s", r.p.Bold(plaintext.Line(t.ID)), plaintext.Line(t.Title)))
		r.field("now", string(t.Status))
		r.field("attempts", strings.TrimSuffix(t.Tries()+", last by "+t.By, ", last by "))
		r.field("outcome", string(t.Outcome))
		r.field("change", t.Change.String())
		r.field("obstacle", t.Obstacle)
		r.field("next", t.Recommendation)
	}
	r.more(l.More(), l.AtLeast)
}

func (r *reportPage) waiting(l report.List[report.Waiting]) {
	if l.Total == 0 {
		return
	}
	r.heading("waiting", l.Total)
	var rows [][]string
	for _, w := range l.Shown {
		until := "-"
		if !w.Until.IsZero() {
			until = terminal.Clock(w.Until, r.now)
		}
		rows = append(rows, []string{terminal.Cell(w.ID), string(w.Status), until,
			ansi.Truncate(terminal.Cell(cmp.Or(w.For, "-")), 50, "…"), terminal.Cell(w.Title)})
	}
	r.table([]string{"ID", "STATE", "UNTIL", "FOR", "TITLE"}, rows)
	r.more(l.More(), l.AtLeast)
}

func (r *reportPage) cost(c report.Cost) {
	if c.Total.Calls == 0 {
		return
	}
	r.heading("cost of calls", int(c.Total.Calls))
	shown := cost.Report{By: cost.ByAgent, Since: c.Since, Until: c.Until, Rows: c.Agents.Shown, Total: c.Total}
	width := r.width
	if width > 2 {
		width -= 2
	}
	for _, line := range costLines(shown, r.p, width) {
		r.lines = append(r.lines, "  "+line)
	}
	r.more(c.Agents.More(), false)
}

func (r *reportPage) runs(runs report.Runs) {
	if runs.Agents.Total == 0 {
		return
	}
	r.heading("agents", runs.Agents.Total)
	var rows [][]string
	for _, a := range runs.Agents.Shown {
		row := []string{terminal.Cell(a.Path)}
		for _, n := range []int{a.Starts, a.Restarts, a.Failures, a.Lost} {
			row = append(row, plaintext.Thousands(int64(n)))
		}
		rows = append(rows, append(row, terminal.Cell(cmp.Or(a.LastFailure, "-"))))
	}
	header := []string{"AGENT", "STARTS", "RESTARTS", "FAILURES", "LOST", "LAST FAILURE"}
	r.table(header, rows)
	r.more(runs.Agents.More(), false)
	if !runs.Until.IsZero() {
		r.add(2, fmt.Sprintf("  counted until %s, the first %s events", terminal.Clock(runs.Until, r.now),
			plaintext.Thousands(report.MaxEvents)))
	}
}
