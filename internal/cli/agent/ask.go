package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func newAsk(s *command.Streams) *cobra.Command {
	var a askFlags
	cmd := &cobra.Command{
		Use:   "ask TEXT",
		Short: "Ask people and wait for the answer",
		Long: `Ask people, wait for the answer and print it. "-" reads TEXT from standard input. The
question survives the daemon, the machine and the agent, which gets the answer when it asks the
same again. An answer that no command waits for is sent by mail.

Exit codes: 0 with an answer, 124 if the deadline has passed without a default, 4 if --status
finds no answer yet.`,
		Example: `  coppice agent ask 'Deploy now?' --options yes,no --default no --deadline 30m
  coppice agent ask 'Which customer is this for?' --no-wait`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch named := a.status != "" || a.withdraw != ""; {
			case len(args) > 1:
				return fmt.Errorf("unexpected argument %q; a text of several words has to be quoted", args[1])
			case len(args) == 0 && !named:
				return errors.New("the text of the question is missing")
			case len(args) == 1 && named:
				return fmt.Errorf("unexpected argument %q next to the ID of a question", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case a.status != "":
				q, err := command.Call(command.AskAsAgent, question.Get, question.ID{ID: a.status})
				if err != nil {
					return err
				}
				return report(s, q)
			case a.withdraw != "":
				_, err := command.Call(command.AskAsAgent, question.Withdraw, question.ID{ID: a.withdraw})
				return err
			}
			return a.ask(s, args[0])
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&a.list, "options", nil, "the possible answers, a `LIST` separated by commas")
	f.StringArrayVar(&a.options, "option", nil,
		"a possible answer; can be repeated, and `TEXT` may have commas")
	f.StringVar(&a.defaultAnswer, "default", "", "the `ANSWER` if there is none at the deadline")
	f.Var((*timespan.Flag)(&a.deadline), "deadline", "the longest time to wait, such as 30m or 2d")
	f.BoolVar(&a.noWait, "no-wait", false, "print the id of the question and return; the answer comes by mail")
	f.StringVar(&a.status, "status", "", "print the answer to question `ID`")
	f.StringVar(&a.withdraw, "withdraw", "", "close question `ID`, whose answer is no longer needed")
	s.JSONFlag(cmd, "the question as an object")
	cmd.MarkFlagsMutuallyExclusive("status", "withdraw", "no-wait")
	return cmd
}

// askFlags are the flags of ask.
type askFlags struct {
	list, options    []string
	defaultAnswer    string
	deadline         time.Duration
	noWait           bool
	status, withdraw string
}

func (a *askFlags) ask(s *command.Streams, text string) error {
	if text == "-" {
		var err error
		if text, err = s.ReadText(question.MaxText, "question"); err != nil {
			return err
		}
	}
	if a.deadline < 0 {
		return command.Usagef("--deadline %v has passed already, expected how long to wait, such as 30m",
			a.deadline)
	}
	req := question.AskRequest{
		Text: text, Options: append(a.list, a.options...), Default: a.defaultAnswer, Deadline: a.deadline.Seconds(),
		Key: rand.Text(),
	}
	q, err := command.Call(command.AskAsAgent, question.Ask, req)
	if err != nil {
		return err
	}
	if a.noWait {
		return s.PrintLine(q, plaintext.Line(q.ID))
	}
	forever := func(do func(context.Context, *api.Client) error) error {
		return command.AskAsAgentFor(command.NoTimeout, do)
	}
	if q, err = command.Call(forever, question.Await, question.ID{ID: q.ID}); err != nil {
		return err
	}
	return report(s, q)
}

// report prints the result of a question, and then confirms to the daemon that the agent has it. An
// agent that is killed in between gets the answer again.
func report(s *command.Streams, q question.Question) error {
	var result error
	switch q.State {
	case question.Answered:
	case question.Open:
		result = command.Exitf(command.ExitHuman, "%s is not answered yet", plaintext.Line(q.ID))
	case question.Expired:
		result = command.Exitf(command.ExitTimeout, "%s was not answered before its deadline", plaintext.Line(q.ID))
	default:
		result = fmt.Errorf("%s was withdrawn", plaintext.Line(q.ID))
	}
	var err error
	switch {
	case s.JSON:
		err = s.PrintJSON(q)
	case q.State == question.Answered:
		err = s.PrintLines(terminal.PlainText(q.Answer))
	}
	if err != nil || q.State == question.Open {
		return errors.Join(err, result)
	}
	if _, err := command.Call(command.AskAsAgent, question.Take, question.ID{ID: q.ID}); err != nil {
		// The agent has its answer; at worst it gets it twice.
		fmt.Fprintf(s.Err, "coppice: cannot confirm the answer to the daemon: %v\n",
			plaintext.Line(err.Error()))
	}
	return result
}
