// Package mail has the commands for messages, and for the answers to questions of agents.
package mail

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// mailbox is whose mail the commands deal with.
type mailbox struct {
	list, short string // name of the command that lists it, and what the group is for
	long        string
	send        string // the command that replies
	flags       func(*cobra.Command)
	ask         func(func(context.Context, *api.Client) error) error
	look        func(*command.Streams, func(context.Context, *api.Client) error) error // see remote.look
}

func ForAgents() mailbox {
	return mailbox{
		list: "inbox", short: "Send and read messages", send: "coppice agent mail send",
		long: `Send messages to agents and people, and read those for this agent. The mailbox belongs
to the agent, not to one incarnation.`,
		flags: func(*cobra.Command) {}, ask: command.AskAsAgent, look: command.LookAsAgent,
	}
}

func ForPeople() mailbox {
	var r command.Remote
	return mailbox{
		list: "ls", short: "Read mail from agents, and write to them", send: "coppice mail send",
		long: `Read mail from agents, and write to them. All people share one mailbox. coppice inbox
shows it together with the questions of agents.`,
		flags: r.Flags, ask: r.Ask, look: r.Look,
	}
}

func New(s *command.Streams, b mailbox) *cobra.Command {
	cmd := &cobra.Command{Use: "mail", Short: b.short, Long: b.long}
	cmd.AddCommand(newMailSend(s, b), newMailList(s, b), newMailRead(s, b), newMailArchive(b))
	for _, sub := range cmd.Commands() {
		b.flags(sub)
		if sub.ValidArgsFunction == nil {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	return cmd
}

func newMailSend(s *command.Streams, b mailbox) *cobra.Command {
	var req mail.SendRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "send TO [-s SUBJECT] [-m TEXT]",
		Short: "Send a message",
		Long: `Send a message to the path of an agent, or to "people". Without -m the text is read
from standard input, at most 64 KiB. A reply (--reply-to) needs no TO and no subject. The
command returns when the message is durable.`,
		Example: "  " + b.send + " people -s 'The disk is nearly full' -m '3 GiB left'\n" +
			"  git log -5 | " + b.send + " web/api -s 'What is new'",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return fmt.Errorf("unexpected argument %q; texts of several words have to be quoted: -m 'TEXT'",
					args[1])
			case len(args) == 0 && req.ReplyTo == "":
				return errors.New("whom it is to is missing: the path of an agent, or people")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req.To = strings.Join(args, "")
			if !cmd.Flags().Changed("message") {
				text, err := s.ReadText(mail.MaxBody, "message")
				if err != nil {
					return err
				}
				req.Body = text
			}
			req.Key = rand.Text()
			var sent mail.Message
			err := b.ask(func(ctx context.Context, c *api.Client) (err error) {
				sent, err = mail.Send.Call(ctx, c, req)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return s.PrintJSON(sent)
			}
			return s.PrintLines([]string{fmt.Sprintf("%s sent to %s", proc.Plain(sent.ID), proc.Plain(sent.To))})
		},
	}
	cmd.Flags().StringVarP(&req.Subject, "subject", "s", "",
		"the subject, one `LINE` (default: the first line of the text)")
	cmd.Flags().StringVarP(&req.Body, "message", "m", "", "the `TEXT`")
	cmd.Flags().StringVar(&req.ReplyTo, "reply-to", "", "the `ID` of the message to reply to")
	command.JSONFlag(cmd, &asJSON, "the message as an object")
	return cmd
}

func newMailList(s *command.Streams, b mailbox) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   b.list,
		Short: "List unread messages",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var messages []mail.Message
			err := b.look(s, func(ctx context.Context, c *api.Client) (err error) {
				messages, err = mail.List.Call(ctx, c, mail.ListRequest{All: all})
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return s.PrintJSON(messages)
			}
			width, tty := terminal.Size(s.Out)
			return s.PrintLines(mailLines(messages, all, time.Now(), width, terminal.NewPaint(tty)))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also read and archived messages")
	command.JSONFlag(cmd, &asJSON, "an array of objects")
	return cmd
}

func mailLines(messages []mail.Message, all bool, now time.Time, width int, p terminal.Paint) []string {
	header := []string{"ID", "FROM", "AGE", "SUBJECT"}
	if all {
		header = []string{"ID", "FROM", "AGE", "STATE", "SUBJECT"}
	}
	rows := make([][]string, len(messages))
	for i, m := range messages {
		rows[i] = []string{terminal.Cell(m.ID), terminal.Cell(m.From), terminal.Age(m.At, now)}
		if all {
			rows[i] = append(rows[i], mailState(m))
		}
		rows[i] = append(rows[i], terminal.Cell(m.Subject))
	}
	return terminal.Table(header, rows, width, terminal.BoldHeader(p))
}

func mailState(m mail.Message) string {
	switch {
	case !m.ArchivedAt.IsZero():
		return "archived"
	case m.ReadAt.IsZero():
		return "unread"
	}
	return "read"
}

func newMailRead(s *command.Streams, b mailbox) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "read ID...",
		Short: "Show messages, and mark them as read",
		Args:  command.SomeIDs("message", "mail "+b.list),
		RunE: func(_ *cobra.Command, ids []string) error {
			var messages []mail.Message
			err := b.look(s, func(ctx context.Context, c *api.Client) (err error) {
				messages, err = mail.Read.Call(ctx, c, mail.IDs{IDs: ids})
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return s.PrintJSON(messages)
			}
			_, tty := terminal.Size(s.Out)
			p := terminal.NewPaint(tty)
			var lines []string
			for i, m := range messages {
				if i > 0 {
					lines = append(lines, "", p.Dim("---"), "")
				}
				lines = append(lines, letter(m, time.Now(), p)...)
			}
			return s.PrintLines(lines)
		},
	}
	command.JSONFlag(cmd, &asJSON, "an array of objects")
	return cmd
}

// letter is a message as people read it.
func letter(m mail.Message, now time.Time, p terminal.Paint) []string {
	from := m.From
	if m.Incarnation > 0 {
		from = fmt.Sprintf("%s, incarnation %d", m.From, m.Incarnation)
	}
	lines := []string{
		p.Dim("from    ") + proc.Plain(from),
		p.Dim("at      ") + terminal.Clock(m.At, now),
		p.Dim("subject ") + p.Bold(proc.Plain(m.Subject)),
	}
	if m.ReplyTo != "" {
		lines = append(lines, p.Dim("to      ")+proc.Plain(m.ReplyTo))
	}
	if m.Body != "" {
		lines = append(append(lines, ""), terminal.PlainLines(m.Body)...)
	}
	return lines
}

func newMailArchive(b mailbox) *cobra.Command {
	return &cobra.Command{
		Use:   "archive ID...",
		Short: "Archive messages",
		Long: `Archive messages, read or unread. Archived messages are listed with --all, and are
removed after 30 days.`,
		Args: command.SomeIDs("message", cmp.Or("mail "+b.list)),
		RunE: func(_ *cobra.Command, ids []string) error {
			return b.ask(func(ctx context.Context, c *api.Client) error {
				_, err := mail.Archive.Call(ctx, c, mail.IDs{IDs: ids})
				return err
			})
		},
	}
}
