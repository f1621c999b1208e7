package top

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"

	climail "github.com/coppice-dev/coppice/internal/cli/mail"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// inboxTable returns the header and the rows of the inbox, or one line that says why there are none.
func (m *topModel) inboxTable(width int) []string {
	v, p := &m.inbox, m.paint
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

// inboxRooms returns how many rows of the inbox and lines of the selected one fit on the whole screen. On a low
// screen only rows do.
func (m *topModel) inboxRooms() (rows, lines int) {
	rows = max(1, min(len(m.inbox.ids()), m.height/3))
	if lines = m.height - rows - 4; lines < 2 {
		return max(1, m.height-3), 0
	}
	return rows, lines
}

// fitInbox lays out the selected question or message.
func (m *topModel) fitInbox() {
	v := &m.inbox
	_, room := m.inboxRooms()
	if v.view.Width() == m.width && v.view.Height() == max(1, room) && v.laidOut == v.subject() {
		return
	}
	v.laidOut = v.subject()
	var lines []string
	if q := v.question(); q != nil {
		lines = climail.QuestionLines(*q, time.Now())
	} else if message := v.message(); message != nil {
		lines = climail.MessageLines(*message, time.Now(), m.paint)
	}
	fitView(&v.view, wrapped(lines, 5, m.width), m.width, room)
}

// inboxLines returns the inbox as the whole screen, without its last line.
func (m *topModel) inboxLines() []string {
	v := &m.inbox
	table := m.inboxTable(m.width - 2)
	if len(table) < 2 {
		return append([]string{m.paneTitle()}, table...)
	}
	rows, room := m.inboxRooms()
	lines := []string{m.paneTitle(), "  " + table[0]}
	above := max(0, min(v.at-rows/2, len(table)-1-rows))
	for i, line := range table[1:] {
		if i >= above && i < above+rows {
			mark := "  "
			if i == v.at {
				mark = m.paint.Bold("> ")
			}
			lines = append(lines, mark+line)
		}
	}
	if room > 0 {
		lines = append(append(lines, m.title(plaintext.Line(v.subject().id))), scrolled(v.view)...)
	}
	return lines
}

// inboxTitle returns the title of the inbox.
func (v *inboxView) title() string {
	if v.taken == 0 {
		return "inbox"
	}
	return "inbox: " + plaintext.Plural(len(v.questions), "question") + ", " +
		plaintext.Plural(len(v.messages), "message")
}

// answerLine returns the line in which an answer is typed. It shows the option that a number chooses.
func (m *topModel) answerLine() string {
	v := &m.inbox
	help := "Enter sends it, Esc drops it"
	text := strings.TrimSpace(v.text)
	if option := climail.ChosenOption(text, v.answering.Options); option != text {
		help = "is " + plaintext.Line(option) + "; " + help
	}
	return m.inputLine("answer "+plaintext.Line(v.answering.ID)+": ", v.text, help)
}

// inInbox returns the keys to name below the inbox.
func (k topKeys) inInbox() []key.Binding {
	enter := k.open
	enter.SetHelp(enter.Help().Key, "answer or read")
	return []key.Binding{k.back, enter, k.nextPane, k.pageUp, k.pageDown, k.help}
}
