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
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func NewExplain(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "explain PATH",
		Short: "Show why a node is in its state, and what is next",
		Long: `Show why an agent or supervisor is in its state, the facts behind that, what
happens next and when, and what you can do; for a pool, also the last result of
its check. Its last events and the end of its output follow.`,
		Args: command.OnePath,
		RunE: func(_ *cobra.Command, args []string) error {
			return command.Show(s, r.Look, status.Explain, status.ExplainRequest{Path: args[0]},
				func(x status.Explanation, p terminal.Paint, width int) []string {
					return terminal.WrapAll(ExplainLines(x, time.Now(), p), 7, width)
				})
		},
		ValidArgsFunction: r.CompletePath(false),
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object")
	return cmd
}

// ExplainLines returns an explanation as text: the node and its state, why, the facts, what is next and what
// to do, its last events, and the end of its output.
func ExplainLines(x status.Explanation, now time.Time, p terminal.Paint) []string {
	n := x.Node
	is, at := "is ", x.Since()
	if !at.IsZero() {
		is = "has been "
	}
	switch n.Shown() {
	case status.ShownNeedsInput:
		is = ""
	case status.ShownCrashLoop:
		is += "in a "
	}
	head := fmt.Sprintf("%s %s%s", p.Bold(plaintext.Line(n.Path)), is, show.PaintState(p, n.Shown(),
		plaintext.Line(n.Shown())))
	if !at.IsZero() {
		head += fmt.Sprintf(" for %s, since %s", timespan.Short(max(0, now.Sub(at))), terminal.Clock(at, now))
	}
	lines := []string{head, p.Dim(plaintext.Line(nodeSummary(n)))}
	field := func(label string, texts ...string) {
		for _, text := range texts {
			if text != "" {
				if len(lines) == 2 {
					lines = append(lines, "")
				}
				text = plaintext.Line(strings.ReplaceAll(text, "\n", " "))
				lines = append(lines, p.Dim(fmt.Sprintf("%-7s", label))+text)
				label = ""
			}
		}
	}
	field("why", x.Rule)
	field("facts", x.Evidence...)
	next := x.Next
	if n.NextAt != nil && n.NextAt.After(now) {
		next += fmt.Sprintf(" (at %s)", terminal.Clock(*n.NextAt, now))
	}
	field("next", next)
	field("do", x.Hint)
	field("writes", writable(n))
	if n.Placement != nil {
		field("place", n.Placement.String())
	}
	field("claims", claimLines(x.Claims, now)...)
	if len(x.History) > 0 {
		lines = append(lines, "", p.Bold("Last events"))
		for _, e := range x.History {
			if e.Path == n.Path {
				e.Message = e.Text()
				e.Path = "" // the heading has it
			}
			lines = append(lines, "  "+show.EventLine(e, now, p))
		}
	}
	if len(x.Tail) > 0 {
		lines = append(lines, "", p.Bold("Last output"))
		for _, line := range x.Tail {
			lines = append(lines, "  "+p.Dim("|")+" "+plaintext.Line(line))
		}
	}
	return lines
}

// nodeSummary lists the fixed properties of a node, and its counters.
func nodeSummary(n status.Node) string {
	parts := []string{n.Kind}
	for _, part := range []struct{ format, value string }{
		{"%s", n.Strategy}, {"in %s", n.Runtime}, {"on %s", n.Host}, {"as user %s", plaintext.Line(n.User)},
	} {
		if part.value != "" {
			parts = append(parts, fmt.Sprintf(part.format, part.value))
		}
	}
	if n.NoNewPrivileges {
		parts = append(parts, "no new privileges")
	}
	if n.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", n.PID))
	}
	if n.Incarnation != 0 {
		parts = append(parts, fmt.Sprintf("incarnation %d", n.Incarnation))
	}
	if n.Restart != "" {
		parts = append(parts, "restart "+plaintext.Line(n.Restart))
	}
	switch starts := n.Starts(); starts {
	case "-":
	case "shared":
		parts = append(parts, "its restarts count for "+plaintext.Line(n.LimitOf))
	default:
		if n.LimitAction != "" {
			starts += ", then " + strings.ReplaceAll(n.LimitAction, "_", " ")
		}
		parts = append(parts, plaintext.Line(starts))
	}
	return strings.Join(parts, ", ")
}

// writable says where an agent may write; "" if that is not limited.
func writable(n status.Node) string {
	if n.ReadWritePaths == nil {
		return ""
	}
	text := "only to " + strings.Join(n.ReadWritePaths, ", ")
	if len(n.ReadWritePaths) == 0 {
		text = "to nothing"
	}
	if len(n.ReadOnlyPaths) > 0 {
		text += "; not to " + strings.Join(n.ReadOnlyPaths, ", ")
	}
	return text
}

// claimLines lists the outcomes that an agent has claimed, the latest first.
func claimLines(claims []api.Claim, now time.Time) []string {
	const shown = 3
	var lines []string
	for i := len(claims) - 1; i >= 0 && len(lines) < shown; i-- {
		c := claims[i]
		text := string(c.Report.Kind) // possibly from a later version
		if o, err := outcome.New(c.Report); err == nil {
			text = o.String()
		}
		line := fmt.Sprintf("%s (incarnation %d, %s", text, c.Incarnation, terminal.Clock(c.Time, now))
		if c.Revisions > 0 {
			line += ", revised"
		}
		lines = append(lines, line+")")
	}
	if left := len(claims) - len(lines); left > 0 {
		lines = append(lines, fmt.Sprintf("and %d before; all with --json", left))
	}
	return lines
}
