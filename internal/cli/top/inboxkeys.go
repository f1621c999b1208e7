package top

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/question"
)

// keyInInbox handles the keys of the inbox that no other pane has.
func (m *topModel) keyInInbox(msg tea.KeyPressMsg) tea.Cmd {
	k, v := m.keys, &m.inbox
	q := v.question()
	switch digit := msg.String(); {
	case key.Matches(msg, k.up):
		v.selectRow(v.at - 1)
	case key.Matches(msg, k.down):
		v.selectRow(v.at + 1)
	case key.Matches(msg, k.first):
		v.selectRow(0)
	case key.Matches(msg, k.last):
		v.selectRow(len(v.ids()) - 1)
	case key.Matches(msg, k.open) && q != nil:
		v.begin(*q, "")
	case key.Matches(msg, k.open) && v.message() != nil:
		return m.read(v.selected)
	case q != nil && len(q.Options) > 0 && len(digit) == 1 && strings.Contains("123456789", digit):
		v.begin(*q, digit)
	default:
		scroll(&v.view, msg, k)
	}
	return nil
}

// begin begins an answer.
func (v *inboxView) begin(q question.Question, text string) { v.answering, v.text = &q, text }

// keyInAnswer edits the answer. Only Enter sends it.
func (m *topModel) keyInAnswer(msg tea.KeyPressMsg) tea.Cmd {
	v := &m.inbox
	switch {
	case v.sending:
	case msg.String() == "esc":
		note := v.answering.ID + ": not answered"
		v.answering = nil
		return m.showNote(note)
	case msg.String() == "enter" && strings.TrimSpace(v.text) == "":
		return m.showNote("the answer is empty; Esc drops it")
	case msg.String() == "enter":
		return m.answer()
	default:
		v.text = edited(v.text, msg)
	}
	return nil
}

// answer sends the answer. If that fails, the text stays.
func (m *topModel) answer() tea.Cmd {
	m.inbox.sending = true
	q, text := *m.inbox.answering, m.inbox.text
	m.keepNote(fmt.Sprintf("answering %s …", q.ID))
	return func() tea.Msg {
		done, err := m.fleet.answer(q, text)
		return answeredMsg{done, err}
	}
}

// takeAnswered says how an answer has ended, and gets the inbox again.
func (m *topModel) takeAnswered(msg answeredMsg) tea.Cmd {
	v := &m.inbox
	v.sending = false
	if msg.err != nil {
		return m.showNote(oneLine(msg.err))
	}
	v.answering, v.text = nil, ""
	v.asked = v.asked.Add(-refreshInterval)
	return m.showNote(msg.done)
}

// read gets a message, which is read then.
func (m *topModel) read(id string) tea.Cmd {
	return func() tea.Msg {
		message, err := m.fleet.read(id)
		return readMsg{message, err}
	}
}

// takeRead shows a message.
func (m *topModel) takeRead(msg readMsg) tea.Cmd {
	if msg.err != nil {
		return m.showNote(oneLine(msg.err))
	}
	if msg.ID == m.inbox.selected {
		m.inbox.opened = msg.Message
	}
	return nil
}

// oneLine returns the text of an error as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
