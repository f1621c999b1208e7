package order

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newHistory(s *command.Streams, r *command.Remote) *cobra.Command {
	var output bool
	count := 20
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the last runs of an order, the newest first",
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 1 || count > 1000 {
				return command.Usagef("--lines is %d, expected 1 to 1000", count)
			}
			all, err := command.Call(r.Look, dispatch.Runs, dispatch.RunsRequest{Name: args[0], Count: uint64(count)})
			switch {
			case err != nil:
				return err
			case s.JSON:
				return s.PrintJSON(all)
			case len(all) == 0:
				return s.PrintLines(proc.Plain(args[0]) + " has never run")
			}
			width, tty := terminal.Size(s.Out)
			return s.PrintLines(runLines(all, output, time.Now(), width, terminal.NewPaint(tty))...)
		},
	}
	cmd.Flags().IntVarP(&count, "lines", "n", count, "the last `N` runs")
	cmd.Flags().BoolVarP(&output, "output", "o", false, "print the last lines of their output")
	s.JSONFlag(cmd, "an array of objects, with the output")
	return cmd
}

func runLines(all []dispatch.RunInfo, output bool, now time.Time, width int, p terminal.Paint) []string {
	rows := make([][]string, len(all))
	for i, r := range all {
		code := "-"
		switch {
		case r.Signal != "":
			code = r.Signal
		case r.Code != nil:
			code = fmt.Sprint(*r.Code)
		}
		took := "-"
		if r.EndedAt != nil {
			took = timespan.Short(time.Duration(r.Duration * float64(time.Second)))
		}
		why := r.Reason
		if r.Error != "" {
			why += "; " + r.Error
		}
		rows[i] = []string{terminal.Cell(r.ID), proc.Plain(r.Status), terminal.Clock(r.FiredAt, now), took, code,
			fmt.Sprint(r.Attempt),
			terminal.Cell(why)}
	}
	lines := terminal.Table([]string{"RUN", "STATUS", "FIRED", "TOOK", "CODE", "TRY", "WHY"}, rows, width,
		terminal.BoldHeader(p))
	if !output {
		return lines
	}
	var with []string
	for i, line := range lines {
		with = append(with, line)
		if i > 0 {
			for _, text := range all[i-1].Output {
				with = append(with, "    "+proc.Plain(text))
			}
		}
	}
	return with
}
