package task

import (
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// newPoolActs returns the commands that pause and resume the tasks of a pool.
func newPoolActs(s *command.Streams, w worker) []*cobra.Command {
	var reason string
	act := func(action task.PoolAction, use, short, long string) *cobra.Command {
		cmd := &cobra.Command{
			Use: use, Short: short, Long: long,
			Args: command.One("pool", "the name of a pool is missing; coppice status names those that are paused"),
			RunE: func(_ *cobra.Command, args []string) error {
				return ActOnPool(s, w.ask, task.PoolRequest{Pool: args[0], Action: action, Reason: reason, By: w.by()})
			},
		}
		s.JSONFlag(cmd, "the pool as an object")
		return cmd
	}
	pause := act(task.PausePool, "pause POOL", "Pause the tasks of a pool", `Let no task of a pool be claimed until it is resumed. Attempts that go on are not
interrupted. Pools are also paused when several of their tasks have failed in a short
time, see max_failed_tasks of [daemon].`)
	pause.Flags().StringVarP(&reason, "reason", "r", "", "the reason `WHY`, for others")
	return []*cobra.Command{pause, act(task.ResumePool, "resume POOL", "Resume the tasks of a pool",
		`Let the tasks of a pool be claimed again. If the pool was paused because tasks have
failed, one task is tried first, and how that ends decides.`)}
}

// ActOnPool pauses or resumes the tasks of a pool, and prints its state.
func ActOnPool(s *command.Streams, ask command.Via, req task.PoolRequest) error {
	return command.Show(s, ask, task.ActOnPool, req, func(p pools.Pool, _ terminal.Paint, _ int) []string {
		return []string{poolText(p)}
	})
}

// poolText says whether the tasks of a pool are claimed.
func poolText(p pools.Pool) string {
	name := "the tasks of " + plaintext.Line(p.Name)
	switch p.State {
	case pools.Paused:
		return name + " are paused; resume them with: coppice task resume " + plaintext.Line(p.Name)
	case pools.Probes:
		return name + " are resumed with one task, which decides"
	}
	return name + " are claimed"
}
