package task

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newClaim(s *command.Streams, w worker) *cobra.Command {
	var t task.ClaimRequest
	var quiet, wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "claim [ID]",
		Short: "Claim a task by its ID, or the first ready one",
		Args:  command.AtMostOne("task"),
		RunE: func(_ *cobra.Command, args []string) error {
			t.ID, t.Key, t.By = strings.Join(args, ""), rand.Text(), w.by()
			var got []task.Task
			var err error

			switch {
			case !wait && timeout != 0:
				return command.Usagef("--timeout bounds --wait, and there is none")
			case wait && t.ID != "":
				return command.Usagef("--wait is for the first task that is ready, not for the one of an ID")
			case timeout < 0:
				return command.Usagef("--timeout is %v, expected how long to wait, such as 10m", timeout)
			case wait:
				got, err = awaitTask(t, timeout)
			default:
				got, err = command.Call(w.ask, task.Claim, t)
			}
			switch {
			case err != nil:
				return err
			case s.JSON:
				err = s.PrintJSON(got)
			case len(got) > 0 && quiet:
				err = s.PrintLines(plaintext.Line(got[0].ID))
			case len(got) > 0:
				lines := []string{plaintext.Line(got[0].ID) + "  " + terminal.Cell(got[0].Title)}
				if got[0].DoneWhen != "" {
					lines = append(lines, "done when: "+plaintext.Line(got[0].DoneWhen))
				}
				err = s.PrintLines(lines...)
			}
			if err == nil && len(got) == 0 {
				err = errors.New("no task is ready")
			}
			return err
		},
	}
	if w.agent {
		cmd.Long = `Begin a task: that of the ID, or the first that is ready, of those assigned to this
agent, then of those of its pool. The exit code is 1 if nothing is ready. Until it is
closed or released no other agent can claim it; when this incarnation ends before, it is
open again.

With --wait it waits until there is one, and for the next daemon while there is none.
The exit code is 124 when the --timeout is over, and 1 when the agent is asked to
finish. An agent that waits is not idle.`
		cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until a task is ready")
		cmd.Flags().Var((*timespan.Flag)(&timeout), "timeout",
			"how long to wait at most, such as 10m; for ever if it is left out")
	} else {
		cmd.Long = `Claim a task as a person: the one with ID, or the first ready one that is
assigned to you, or else is in a pool of --pool. The exit code is 1 if none is ready. The claim
lasts until you close or release the task.`
	}
	cmd.Flags().StringSliceVar(&t.Pools, "pool", nil, "a `POOL` to take from; can be repeated")
	cmd.Flags().BoolVar(&t.Any, "any", false, "or else a task without pool and assignee")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the id alone, for scripts")
	s.JSONFlag(cmd, "an array with the task")
	cmd.MarkFlagsMutuallyExclusive("quiet", "json")
	w.complete(cmd)
	return cmd
}

// awaitTask claims a task for an agent, and waits until one is ready.
func awaitTask(t task.ClaimRequest, timeout time.Duration) (got []task.Task, err error) {
	begun, patience := time.Now(), command.NoTimeout
	if timeout > 0 {
		patience = timeout
	}
	err = command.AskAsAgentFor(patience, func(ctx context.Context, c *api.Client) (err error) {
		req := task.WaitRequest{Pools: t.Pools, Any: t.Any, Key: t.Key}
		if timeout > 0 {
			req.Within = max(time.Nanosecond, timeout-time.Since(begun)).Seconds()
		}
		got, err = task.Await.Call(ctx, c, req)
		return err
	})
	switch {
	case err != nil || len(got) > 0:
	case timeout > 0 && time.Since(begun) >= timeout:
		err = command.Exitf(command.ExitTimeout, "no task was ready within %v", timeout)
	default:
		err = errors.New("no task for this agent: it is being drained")
	}
	return got, err
}

// newActs returns the commands that change the state of tasks.
func newActs(s *command.Streams, w worker) []*cobra.Command {
	var all []*cobra.Command
	for _, act := range []struct {
		action      task.Action
		done        string
		short, long string
	}{
		{task.Close, "closed", "Close tasks as done or cancelled",
			`Close tasks as completed, or with --outcome as cancelled. Tasks that depend on completed
ones can begin; --if-dependency-fails of the others says what becomes of them. A task with
open children needs --force.`},
		{task.Release, "open again", "Release claimed tasks",
			`Release claimed tasks: they are open again, for the next agent. People can release tasks
that others have claimed.`},
		{task.Reopen, "open again", "Open closed tasks again", ""},
		{task.Retry, "to be done now", "Retry tasks that are deferred or parked",
			`Open tasks again, whether they are closed, blocked, deferred, parked or claimed; a claim
ends. They still wait for their dependencies.`},
		{task.Approve, "open again", "Approve tasks that wait for a person",
			`Open tasks again about which people are asked, or that are parked. The reason becomes a
comment for the next attempt. An answer to the question in coppice inbox does the same.`},
		{task.Reject, "cancelled", "Reject tasks that wait for a person",
			`Cancel tasks about which people are asked, or that are parked.`},
	} {
		if w.agent && (act.action == task.Approve || act.action == task.Reject) {
			continue
		}
		var a task.ActRequest
		var result string
		cmd := &cobra.Command{
			Use: string(act.action) + " ID...", Short: act.short, Long: act.long,
			Args: command.SomeIDs("task", w.command+" ls"),
			RunE: func(_ *cobra.Command, ids []string) error {
				a.Action, a.Outcome, a.By = act.action, task.Outcome(result), w.by()
				var errs []error
				for _, id := range ids {
					one := a
					one.ID = id
					errs = append(errs, changeTask(s, w, task.Act, one, act.done))
				}
				return errors.Join(errs...)
			},
		}
		cmd.Flags().StringVarP(&a.Reason, "reason", "r", "", "the reason `WHY`, for others")
		if act.action == task.Close {
			cmd.Flags().StringVar(&result, "outcome", string(task.Completed), "completed or cancelled")
			cmd.Flags().BoolVar(&a.Force, "force", false, "even with open children")
		}
		w.complete(cmd)
		all = append(all, cmd)
	}
	return all
}

// complete completes the IDs of tasks that are not closed.
func (w worker) complete(cmd *cobra.Command) {
	if w.completion == nil {
		return // newGroup disables completion then
	}
	cmd.ValidArgsFunction = w.completion(func(ctx context.Context, c *api.Client, _ []string) (words []cobra.Completion,
		_ error) {
		tasks, err := task.ListAll(ctx, c, task.Filter{All: strings.HasPrefix(cmd.Use, "reopen")}, 200)
		for _, t := range tasks {
			words = append(words, cobra.CompletionWithDesc(t.ID, terminal.Cell(t.Title)))
		}
		return words, err
	})
}
