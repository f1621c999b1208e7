// Package mail has the commands for messages and for answering questions of agents.
package mail

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// mailbox configures the commands for the mailbox of people or of an agent.
type mailbox struct {
	list, short string // name of the list command; description of the group
	long        string
	send        string // the full send command
	flags       func(*cobra.Command)
	ask         command.Via
	look        command.Via // for reading, see command.Remote.Look
}

// New returns the mail commands for people.
func New(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	return newGroup(s, mailbox{
		list: "ls", short: "Read mail from agents, and write to them", send: "coppice mail send",
		long: `Read mail from agents, and write to them. All people share one mailbox. coppice inbox
shows it together with the questions of agents.`,
		flags: r.Flags, ask: r.Ask, look: r.Look,
	})
}

// NewOwn returns the mail commands for agents.
func NewOwn(s *command.Streams) *cobra.Command {
	return newGroup(s, mailbox{
		list: "inbox", short: "Send and read messages", send: "coppice agent mail send",
		long: `Send messages to agents and people, and read those for this agent. The mailbox belongs
to the agent, not to one incarnation.`,
		flags: func(*cobra.Command) {}, ask: command.AskAsAgent, look: command.AskAsAgent,
	})
}

func newGroup(s *command.Streams, b mailbox) *cobra.Command {
	cmd := &cobra.Command{Use: "mail", Short: b.short, Long: b.long}
	cmd.AddCommand(newSend(s, b), newList(s, b), newRead(s, b), newArchive(b))
	for _, sub := range cmd.Commands() {
		b.flags(sub)
		if sub.ValidArgsFunction == nil {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	return cmd
}

func newSend(s *command.Streams, b mailbox) *cobra.Command {
	var req mail.SendRequest
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
				return errors.New(`missing recipient: an agent's path, or "people"`)
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
			sent, err := command.Call(b.ask, mail.Send, req)
			if err != nil {
				return err
			}
			return s.PrintLine(sent, fmt.Sprintf("%s sent to %s", plaintext.Line(sent.ID), plaintext.Line(sent.To)))
		},
	}
	cmd.Flags().StringVarP(&req.Subject, "subject", "s", "",
		"the subject, one `LINE` (default: the first line of the text)")
	cmd.Flags().StringVarP(&req.Body, "message", "m", "", "the `TEXT`")
	cmd.Flags().StringVar(&req.ReplyTo, "reply-to", "", "the `ID` of the message to reply to")
	s.JSONFlag(cmd, "the message as an object")
	return cmd
}

func newList(s *command.Streams, b mailbox) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   b.list,
		Short: "List unread messages",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return command.Show(s, b.look, mail.List, mail.ListRequest{All: all},
				func(messages []mail.Message, p terminal.Paint, width int) []string {
					return mailLines(messages, all, time.Now(), width, p)
				})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also read and archived messages")
	s.JSONFlag(cmd, "an array of objects")
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

func newRead(s *command.Streams, b mailbox) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "read ID...",
		Short: "Show messages, and mark them as read",
		Args:  command.SomeIDs("message", "mail "+b.list),
		RunE: func(_ *cobra.Command, ids []string) error {
			return command.Show(s, b.look, mail.Read, mail.IDs{IDs: ids}, allMessageLines)
		},
	}
	s.JSONFlag(cmd, "an array of objects")
	return cmd
}

func allMessageLines(messages []mail.Message, p terminal.Paint, _ int) (lines []string) {
	for i, m := range messages {
		if i > 0 {
			lines = append(lines, "", p.Dim("---"), "")
		}
		lines = append(lines, MessageLines(m, time.Now(), p)...)
	}
	return lines
}

// MessageLines returns a message with its header.
func MessageLines(m mail.Message, now time.Time, p terminal.Paint) []string {
	from := m.From
	if m.Incarnation > 0 {
		from = fmt.Sprintf("%s, incarnation %d", m.From, m.Incarnation)
	}
	lines := []string{
		p.Dim("from    ") + plaintext.Line(from),
		p.Dim("at      ") + terminal.Clock(m.At, now),
		p.Dim("subject ") + p.Bold(plaintext.Line(m.Subject)),
	}
	if m.ReplyTo != "" {
		lines = append(lines, p.Dim("to      ")+plaintext.Line(m.ReplyTo))
	}
	if m.Body != "" {
		lines = append(append(lines, ""), terminal.PlainLines(m.Body)...)
	}
	return lines
}

func newArchive(b mailbox) *cobra.Command {
	return &cobra.Command{
		Use:   "archive ID...",
		Short: "Archive messages",
		Long: `Archive messages, read or unread. Archived messages are listed with --all, and are
removed after 30 days.`,
		Args: command.SomeIDs("message", "mail "+b.list),
		RunE: func(_ *cobra.Command, ids []string) error {
			_, err := command.Call(b.ask, mail.Archive, mail.IDs{IDs: ids})
			return err
		},
	}
}
