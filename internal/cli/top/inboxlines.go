package top

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"

	climail "github.com/coppice-dev/coppice/internal/cli/mail"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// lines returns the header and the rows of the inbox, or one line that says why there are none.
func (v *inboxView) lines(p terminal.Paint, width int) []string {
	switch {
	case v.err != nil:
		return []string{p.Red(plaintext.Line(oneLine(v.err)))}
	case v.taken == 0:
		return nil
	case len(v.ids()) == 0:
		return []string{p.Dim("no open questions, and no unread messages")}
	}
	if v.table == nil || v.tableWidth != width {
		v.table, v.tableWidth = climail.InboxTable(v.questions, v.messages, time.Now(), width, p), width
	}
	return v.table
}

// rooms returns how many rows of the inbox and lines of the selected one fit on the whole screen. On a low
// screen only rows do.
func (v *inboxView) rooms(height int) (rows, lines int) {
	rows = max(1, min(len(v.ids()), height/3))
	if lines = height - rows - 4; lines < 2 {
		return max(1, height-3), 0
	}
	return rows, lines
}

// fit lays out the selected question or message.
func (v *inboxView) fit(c canvas) {
	_, room := v.rooms(c.height)
	if v.view.Width() == c.width && v.view.Height() == max(1, room) && v.laidOut == v.subject() {
		return
	}
	v.laidOut = v.subject()
	var lines []string
	if q := v.question(); q != nil {
		lines = climail.QuestionLines(*q, time.Now())
	} else if message := v.message(); message != nil {
		lines = climail.MessageLines(*message, time.Now(), c.paint)
	}
	fitView(&v.view, wrapped(lines, 5, c.width), c.width, room)
}

// screen returns the inbox as the whole screen, without its last line.
func (v *inboxView) screen(c canvas) []string {
	title, table := c.title(v.title()), v.lines(c.paint, c.width-2)
	if len(table) < 2 {
		return append([]string{title}, table...)
	}
	rows, room := v.rooms(c.height)
	lines := []string{title, "  " + table[0]}
	above := max(0, min(v.at-rows/2, len(table)-1-rows))
	for i, line := range table[1:] {
		if i >= above && i < above+rows {
			mark := "  "
			if i == v.at {
				mark = c.paint.Bold("> ")
			}
			lines = append(lines, mark+line)
		}
	}
	if room > 0 {
		lines = append(append(lines, c.title(plaintext.Line(v.subject().id))), scrolled(v.view)...)
	}
	return lines
}

// title returns the title of the inbox.
func (v *inboxView) title() string {
	if v.taken == 0 {
		return "inbox"
	}
	return "inbox: " + plaintext.Plural(len(v.questions), "question") + ", " +
		plaintext.Plural(len(v.messages), "message")
}

// answerLine returns the line in which an answer is typed. It shows the option that a number chooses.
func (v *inboxView) answerLine(c canvas) string {
	help := "Enter sends it, Esc drops it"
	text := strings.TrimSpace(v.text)
	if option := climail.ChosenOption(text, v.answering.Options); option != text {
		help = "is " + plaintext.Line(option) + "; " + help
	}
	return c.inputLine("answer "+plaintext.Line(v.answering.ID)+": ", v.text, help)
}

// inInbox returns the keys to name below the inbox.
func (k topKeys) inInbox() []key.Binding {
	enter := k.open
	enter.SetHelp(enter.Help().Key, "answer or read")
	return []key.Binding{k.back, enter, k.nextPane, k.pageUp, k.pageDown, k.help}
}
