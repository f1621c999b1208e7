package mail

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muesli/cancelreader"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func NewInbox(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Show open questions and unread mail",
		Long: `Show what waits for a person: questions of agents, with options and deadline, and
unread mail.`,
		Args:              command.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return r.Look(func(ctx context.Context, c *api.Client) error {
				questions, err := question.List.Call(ctx, c, question.ListRequest{})
				if err != nil {
					return err
				}
				messages, err := mail.List.Call(ctx, c, mail.ListRequest{})
				if err != nil {
					return err
				}
				all := map[string]any{"questions": questions, "mail": messages}
				return s.Print(all, func(p terminal.Paint, width int) []string {
					return inboxLines(questions, messages, time.Now(), width, p)
				})
			})
		},
	}
	r.Flags(cmd)
	s.JSONFlag(cmd, "one object with the arrays questions and mail")
	return cmd
}

func inboxLines(questions []question.Question, messages []mail.Message, now time.Time, width int,
	p terminal.Paint) []string {
	lines := InboxTable(questions, messages, now, width, p)
	if p.On && len(questions) > 0 {
		lines = append(lines, p.Dim("answer with: coppice answer "+terminal.Cell(questions[0].ID)))
	}
	if p.On && len(messages) > 0 {
		lines = append(lines, p.Dim("read with: coppice mail read "+terminal.Cell(messages[0].ID)))
	}
	return lines
}

// InboxTable returns a header and a line for each question, and then for each message.
func InboxTable(questions []question.Question, messages []mail.Message, now time.Time, width int,
	p terminal.Paint) []string {
	rows := make([][]string, 0, len(questions)+len(messages))
	for _, q := range questions {
		answers := "any text"
		if len(q.Options) > 0 {
			answers = terminal.Cell(strings.Join(q.Options, " | "))
		}
		rows = append(rows, []string{terminal.Cell(q.ID), terminal.Cell(q.From), terminal.Age(q.At, now),
			terminal.Cell(q.Text), answers, terminal.Cell(deadlineText(q, now))})
	}
	for _, m := range messages {
		rows = append(rows, []string{terminal.Cell(m.ID), terminal.Cell(m.From), terminal.Age(m.At, now),
			terminal.Cell(m.Subject), "-", "-"})
	}
	return terminal.Table([]string{"ID", "FROM", "AGE", "WHAT", "ANSWER", "DEADLINE"}, rows, width,
		terminal.BoldHeader(p))
}

// deadlineText returns when a question expires, and with which answer.
func deadlineText(q question.Question, now time.Time) string {
	if q.Deadline.IsZero() {
		return "-"
	}
	return fmt.Sprintf("in %s: %s", timespan.Short(max(0, q.Deadline.Sub(now))), cmp.Or(q.Default, "no answer"))
}

func NewAnswer(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	cmd := &cobra.Command{
		Use:   "answer ID [ANSWER]",
		Short: "Answer the question of an agent",
		Long: `Answer the question of an agent. If it has options, ANSWER is one of them or its
number; without ANSWER, a terminal offers them. "-" reads ANSWER from standard input. The first
answer counts; a second person is told who has answered.`,
		Args:              command.SomeIDs("question", "coppice inbox"),
		ValidArgsFunction: r.Complete(completeQuestion),
		RunE: func(_ *cobra.Command, args []string) error {
			return r.Ask(func(ctx context.Context, c *api.Client) error {
				q, err := question.Get.Call(ctx, c, question.ID{ID: args[0]})
				if err != nil {
					return err
				}
				text, err := answerTo(s, ctx, q, args[1:])
				if err != nil {
					return err
				}
				done, err := Answer(ctx, c, q, text)
				if err != nil {
					return err
				}
				return s.PrintLines(done)
			})
		},
	}
	r.Flags(cmd)
	return cmd
}

// Answer answers a question as this user, with a text or the number of an option. It returns a line that says so.
func Answer(ctx context.Context, c *api.Client, q question.Question, text string) (done string, err error) {
	q, err = question.Answer.Call(ctx, c, question.AnswerRequest{
		ID: q.ID, Answer: ChosenOption(strings.TrimSpace(text), q.Options), By: command.UserName(),
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of %s is answered: %s", terminal.Cell(q.ID), terminal.Cell(q.From),
		terminal.Cell(q.Answer)), nil
}

// answerTo returns the answer of the user, from the arguments or else from the terminal. For a
// closed question it returns a placeholder, which the daemon rejects with the reason.
func answerTo(s *command.Streams, ctx context.Context, q question.Question, words []string) (string, error) {
	text := strings.TrimSpace(strings.Join(words, " "))
	switch {
	case text == "-":
		var err error
		if text, err = s.ReadText(question.MaxText, "answer"); err != nil {
			return "", err
		}
	case text != "":
	case q.State != question.Open:
		text = "-"
	case !term.IsTerminal(int(s.In.Fd())):
		how := "coppice answer " + terminal.Cell(q.ID) + " ANSWER"
		if len(q.Options) > 0 {
			how += ", which is one of " + plaintext.Line(strings.Join(q.Options, ", "))
		}
		return "", command.Usagef("the answer is missing: %s", how)
	default:
		for _, line := range QuestionLines(q, time.Now()) {
			fmt.Fprintln(s.Err, line)
		}
		var err error
		if text, err = prompt(s, ctx); err != nil {
			return "", err
		}
	}
	return text, nil
}

// prompt reads a line from the terminal.
func prompt(s *command.Streams, ctx context.Context) (string, error) {
	input, err := cancelreader.NewReader(s.In)
	if err != nil {
		return "", fmt.Errorf("reading from the terminal: %w", err)
	}
	defer input.Close()
	defer context.AfterFunc(ctx, func() { input.Cancel() })()
	fmt.Fprint(s.Err, "> ")
	line, err := bufio.NewReader(io.LimitReader(input, question.MaxText+1)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("reading from the terminal: %w", err)
	case strings.TrimSpace(line) == "":
		return "", command.Usagef("the answer is empty")
	}
	return line, nil
}

// QuestionLines formats a question for the terminal.
func QuestionLines(q question.Question, now time.Time) []string {
	lines := []string{fmt.Sprintf("%s asks, %s ago:", plaintext.Line(q.From), terminal.Age(q.At, now)), ""}
	for _, line := range terminal.PlainLines(q.Text) {
		lines = append(lines, "  "+line)
	}
	lines = append(lines, "")
	for i, o := range q.Options {
		lines = append(lines, fmt.Sprintf("  %d  %s", i+1, terminal.Cell(o)))
	}
	if len(q.Options) > 0 {
		lines = append(lines, "")
	}
	if !q.Deadline.IsZero() {
		lines = append(lines, "without an answer "+plaintext.Line(deadlineText(q, now)))
	}
	return lines
}

// ChosenOption returns the option with a number, unless the text is itself an option.
func ChosenOption(text string, options []string) string {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > len(options) || slices.Contains(options, text) {
		return text
	}
	return options[n-1]
}

// completeQuestion completes open questions, and then the options of one.
func completeQuestion(ctx context.Context, c *api.Client, args []string) (words []cobra.Completion, _ error) {
	if len(args) > 1 {
		return nil, nil
	}
	questions, err := question.List.Call(ctx, c, question.ListRequest{})
	for _, q := range questions {
		if len(args) == 0 {
			words = append(words, cobra.CompletionWithDesc(q.ID, terminal.Cell(q.Text)))
		} else if q.ID == args[0] {
			for _, o := range q.Options {
				if o == plaintext.Line(o) && !strings.ContainsAny(o, "\t ") {
					words = append(words, o)
				}
			}
		}
	}
	return words, err
}
