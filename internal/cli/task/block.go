package task

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task"
)

// newBlock returns the command that lets a task wait for a condition.
func newBlock(s *command.Streams, w worker) *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use: "block ID --until CONDITION", Short: "Block a task until a condition holds",
		Long: `Let a task wait for a condition; it is open again when that holds. A claim on the task
ends. CONDITION is one of
  event=TYPE[:PATH]  an event of the log; see coppice events
  command=COMMAND    a command that exits with 0; it runs every 30s
  service=NAME       the check of a [[service]] of the file, or else a person
  task=ID, time=WHEN, person=ACTION

After 24h a person is asked. Commands run as the user of the daemon, so
agents cannot set one.`,
		Example: "  " + w.command + " block web-x4k --until event=order.completed:orders/deploy\n" +
			"  " + w.command + " block web-x4k --until 'command=test -e /srv/ready'",
		Args: oneTask(w),
		RunE: func(_ *cobra.Command, args []string) error {
			if until == "" {
				return command.Usagef("--until is missing, expected what the task waits for")
			}
			c, err := outcome.ParseCondition(until, time.Now())
			if err == nil {
				err = outcome.CheckCondition(c)
			}
			if err != nil {
				return command.Usagef("--until: %v", err)
			}
			req := task.BlockRequest{ID: args[0], Condition: c, Reason: reason, By: w.by()}
			return changeTask(s, w, task.Block, req, "blocked")
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "the `CONDITION`, as KIND=WHAT")
	cmd.Flags().StringVarP(&reason, "reason", "r", "", "the reason `WHY`, for others")
	w.complete(cmd)
	return cmd
}
