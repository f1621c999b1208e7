package look

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func NewStatus(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:               "status",
		Short:             "Show what runs, and what needs attention",
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			st, err := command.Call(r.Look, status.Get, api.None{})
			if err != nil {
				return err
			}
			err = s.Print(st, func(p terminal.Paint, width int) []string {
				return terminal.WrapAll(statusLines(st, time.Now(), p), 11, width)
			})
			if err == nil && st.Controller.PID == 0 {
				err = command.Exit(command.ExitNoDaemon, nil)
			}
			return err
		},
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object")
	return cmd
}

func statusLines(st status.Status, now time.Time, p terminal.Paint) []string {
	line := func(label, format string, args ...any) string {
		return labelled(label, plaintext.Line(fmt.Sprintf(format, args...)), p)
	}
	total := 0
	for _, n := range st.Summary {
		total += n
	}
	agents := line("agents", "%d", total)
	if states := show.StateCounts(st.Summary, p); len(states) > 0 {
		agents += ": " + strings.Join(states, ", ")
	}
	d := st.Controller
	lines := []string{
		labelled("project", p.Bold(plaintext.Line(st.Project)), p),
		line("daemon", "pid %d on %s, version %s, up %s", d.PID, d.Host, d.Version,
			timespan.Short(time.Duration(d.Uptime*float64(time.Second)))),
		agents,
	}
	if d.PID == 0 {
		lines[1] = line("daemon", "not running; start it with: coppice up -d")
	}
	for i, text := range show.FleetNodes(st.Nodes, p) {
		label := "nodes"
		if i > 0 {
			label = ""
		}
		lines = append(lines, labelled(label, text, p))
	}
	if st.Suspended != "" {
		lines = append(lines, labelled("state", show.PaintState(p, "suspended", plaintext.Line(st.Suspended)), p))
	}
	store := line("store", "%s %s", st.Store.Kind, st.Store.Path)
	if w := st.Store.Writes; w != nil {
		store += fmt.Sprintf(", %.1f writes/s, at most %d at once", w.PerSecond, w.AtOnce)
	}
	if !st.Store.OK {
		store += " " + p.Red("takes no writes: "+plaintext.Line(st.Store.Error))
	}
	lines = append(append(lines, store), configLines(st, now, p)...)
	lines = append(lines, attentionLines(st, now, p)...)
	for _, p := range st.Pools {
		lines = append(lines, line("pool", "%s: %s", p.Path, show.PoolText(p.Pool)))
	}
	if st.Orders != nil {
		lines = append(lines, line("orders", "%s", orderCounts(*st.Orders, now)))
	}
	if in := st.Inbox; in.Questions+in.Mail > 0 {
		lines = append(lines, line("inbox", "%s, %s: coppice inbox", plaintext.Plural(in.Questions, "question"),
			plaintext.Plural(in.Mail, "message")))
	}
	lines = append(lines, gateLines(st.Gates, now, p)...)
	if n := st.Inbox.Parked; n > 0 {
		text := line("tasks", "%s parked after failed claims: coppice task ls --status parked",
			plaintext.Plural(n, "task"))
		lines = append(lines, show.PaintState(p, status.ShownNeedsInput, text))
	}
	return lines
}

// maxGates bounds the conditions that are shown.
const maxGates = 5

// gateLines returns what blocked tasks wait for.
func gateLines(gates []task.Gate, now time.Time, p terminal.Paint) (lines []string) {
	for _, g := range gates[:min(len(gates), maxGates)] {
		lines = append(lines, labelled("blocked", plaintext.Line(fmt.Sprintf("%s until the %s: %.80s; %s",
			plaintext.Plural(g.Tasks, "task"), g.Condition.Kind, g.Condition.What, show.GateText(g, now))), p))
	}
	if more := len(gates) - maxGates; more > 0 {
		lines = append(lines, labelled("blocked", fmt.Sprintf("and %s more: coppice task ls --status blocked",
			plaintext.Plural(more, "condition")), p))
	}
	return lines
}

// labelled returns a line of status with its label.
func labelled(label, text string, p terminal.Paint) string {
	return p.Dim(fmt.Sprintf("%-8s", label)) + " " + text
}

// configLines shows the file in force. A running daemon reports errors of a newer version under
// attention; without a daemon they are shown here.
func configLines(st status.Status, now time.Time, p terminal.Paint) []string {
	text := fmt.Sprintf("%s, revision %.12s", st.Config.Path, st.Config.Revision)
	if st.Controller.PID != 0 {
		text += fmt.Sprintf(", loaded %s ago", timespan.Short(max(0, now.Sub(st.Config.LoadedAt))))
	}
	lines := []string{labelled("config", plaintext.Line(text), p)}
	if st.Controller.PID != 0 || st.Config.LastError == "" {
		return lines
	}
	for i, text := range strings.Split(st.Config.LastError, "\n") {
		if i == 0 {
			text = "cannot be used: " + text
		}
		lines = append(lines, strings.Repeat(" ", 9)+p.Red(plaintext.Line(text)))
	}
	return lines
}

// attentionLines lists what is unhealthy or needs a person. For a rejected file it lists all
// errors.
func attentionLines(st status.Status, now time.Time, p terminal.Paint) (lines []string) {
	for i, a := range st.Attention {
		label := "needs"
		if i > 0 {
			label = ""
		}
		var faults []string
		if a.State == status.Rejected && st.Config.LastError != "" {
			faults = strings.Split(st.Config.LastError, "\n")
		}
		for i, text := range show.AttentionOf(a, faults, now, p) {
			if i == 0 {
				text = labelled(label, text, p)
			} else {
				text = "           " + text
			}
			lines = append(lines, text)
		}
	}
	return lines
}

// orderCounts summarizes the state of all orders in a line.
func orderCounts(c order.Counts, now time.Time) string {
	parts := []string{fmt.Sprint(c.Total)}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(c.Running, "running")
	add(c.Failing, "failed last")
	add(c.Disabled, "disabled")
	if c.NextAt != nil {
		parts = append(parts, "next "+c.Next+" "+terminal.UntilText(c.NextAt, now))
	}
	return strings.Join(parts, ", ")
}
