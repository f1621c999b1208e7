package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

func newStatus(s *streams) *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "status",
		Short:             "Show the daemon and its fleet in short",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.ask(func(ctx context.Context, c *api.Client) error {
				st, err := c.Status(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return s.printJSON(st)
				}
				_, tty := isTerminal(s.out)
				return s.printLines(statusLines(st, time.Now(), newPaint(tty)))
			})
		},
	}
	r.flags(cmd)
	jsonFlag(cmd, &asJSON, "one object")
	return cmd
}

func statusLines(st api.Status, now time.Time, p paint) []string {
	line := func(label, format string, args ...any) string {
		return p.dim(fmt.Sprintf("%-8s", label)) + " " + proc.Plain(fmt.Sprintf(format, args...))
	}
	total := 0
	var states []string
	for _, state := range slices.Sorted(maps.Keys(st.Summary)) {
		if n := st.Summary[state]; n > 0 {
			total += n
			states = append(states, p.state(state, proc.Plain(fmt.Sprintf("%d %s", n, state))))
		}
	}
	agents := line("agents", "%d", total)
	if len(states) > 0 {
		agents += ": " + strings.Join(states, ", ")
	}
	if st.NeedsInput > 0 {
		agents += ", " + p.state(needsInput, fmt.Sprintf("%d of them %s", st.NeedsInput, map[bool]string{true: "needs input", false: "need input"}[st.NeedsInput == 1]))
	}
	d := st.Controller
	lines := []string{
		p.dim("project ") + " " + p.bold(proc.Plain(st.Project)),
		line("daemon", "pid %d on %s, version %s, up %s", d.PID, d.Node, d.Version, short(time.Duration(d.Uptime*float64(time.Second)))),
		agents,
	}
	if st.Suspended != "" {
		lines = append(lines, p.dim(fmt.Sprintf("%-8s", "state"))+" "+p.state("suspended", proc.Plain(st.Suspended)))
	}
	store := line("store", "%s %s", st.Store.Kind, st.Store.Path)
	if !st.Store.OK {
		store += " " + p.red("takes no writes: "+proc.Plain(st.Store.Error))
	}
	loaded := line("config", "%s, revision %.12s, loaded %s ago", st.Config.Path, st.Config.Revision, short(max(0, now.Sub(st.Config.LoadedAt))))
	lines = append(lines, store, loaded)
	if st.Config.LastError != "" {
		for i, text := range strings.Split(st.Config.LastError, "\n") {
			if i == 0 {
				text = "a later version was refused: " + text
			}
			lines = append(lines, strings.Repeat(" ", 9)+p.red(proc.Plain(text)))
		}
	}
	for _, p := range st.Pools {
		lines = append(lines, line("pool", "%s: %s", p.Path, poolText(p.Pool)))
	}
	if st.Orders != nil {
		lines = append(lines, line("orders", "%s", orderCounts(*st.Orders, now)))
	}
	if in := st.Inbox; in.Questions+in.Mail > 0 {
		lines = append(lines, line("inbox", "%s, %s: coppice inbox", plural(in.Questions, "question"), plural(in.Mail, "message")))
	}
	return lines
}
