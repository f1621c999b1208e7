package top

import (
	"slices"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
)

// inboxView shows what waits for a person: questions, which it answers, and then unread messages.
type inboxView struct {
	inbox
	taken  int       // how often the inbox was received
	asked  time.Time // when the inbox was requested last
	asking bool      // one request is under way at a time

	selected string // ID of a question or message; empty if there is none
	at       int    // row of the selection
	prefer   string // path of the agent whose question is selected first
	opened   mail.Message

	table      []string // all rows as text, with a header; nil if they have changed since
	tableWidth int
	view       viewport.Model // of the selected question or message
	laidOut    subject        // whose text the view has

	answering *question.Question // as it was when the answer was begun; nil if none is
	text      string             // of the answer
	sending   bool
}

// inbox has the open questions and unread messages of one moment. It is a message.
type inbox struct {
	questions []question.Question
	messages  []mail.Message
	err       error
}

type (
	// answeredMsg says how an answer has ended.
	answeredMsg struct {
		done string
		err  error
	}
	// readMsg is a message with its body.
	readMsg struct {
		mail.Message
		err error
	}
)

// ask returns a command that gets the inbox if it is older than refreshInterval.
func (v *inboxView) ask(fleet topFleet, now time.Time) tea.Cmd {
	if v.asking || now.Sub(v.asked) < refreshInterval {
		return nil
	}
	v.asking, v.asked = true, now
	return func() tea.Msg {
		questions, messages, err := fleet.inbox()
		return inbox{questions, messages, err}
	}
}

// take receives the inbox. The selection stays where it is, or in its row. A message that was opened stays
// although it has been read, as long as it is selected.
func (v *inboxView) take(in inbox) {
	v.asking = false
	if in.err != nil {
		v.err = in.err
		return
	}
	v.inbox, v.table = in, nil
	v.taken++
	if v.opened.ID == v.selected && v.opened.ID != "" && v.row(v.selected) < 0 {
		v.messages = append(v.messages, v.opened)
	}
	v.choose()
}

// open prepares the view for the whole screen, with a question of this agent selected if it has one.
func (v *inboxView) open(agent string) {
	v.selected, v.at, v.prefer = "", 0, agent
	v.choose()
}

// choose keeps the selection on what exists.
func (v *inboxView) choose() {
	row := v.row(v.selected)
	if v.selected == "" {
		row = slices.IndexFunc(v.questions, func(q question.Question) bool { return q.From == v.prefer })
	}
	if row < 0 {
		row = v.at
	}
	v.selectRow(row)
}

// ids returns the IDs of all rows.
func (v *inboxView) ids() (ids []string) {
	for _, q := range v.questions {
		ids = append(ids, q.ID)
	}
	for _, m := range v.messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// row returns the row of a question or message, or -1.
func (v *inboxView) row(id string) int { return slices.Index(v.ids(), id) }

// selectRow selects a row, or the nearest one.
func (v *inboxView) selectRow(row int) {
	ids, id := v.ids(), ""
	v.at = max(0, min(row, len(ids)-1))
	if len(ids) > 0 {
		id = ids[v.at]
	}
	if id != v.selected {
		v.selected, v.opened = id, mail.Message{}
		v.view.GotoTop()
	}
}

// subject identifies what the view shows: a question or message of an inbox that was received.
type subject struct {
	id     string
	taken  int
	opened bool
}

// subject returns what the view is to show.
func (v *inboxView) subject() subject {
	id := v.selected
	if q := v.question(); q != nil {
		id = q.ID
	}
	return subject{id, v.taken, id != "" && v.opened.ID == id}
}

// question returns the question that is being answered, or else the selected one; nil if none is.
func (v *inboxView) question() *question.Question {
	if v.answering != nil {
		return v.answering
	}
	if i := v.row(v.selected); i >= 0 && i < len(v.questions) {
		return &v.questions[i]
	}
	return nil
}

// message returns the selected message with its body if it was opened, nil if none is selected.
func (v *inboxView) message() *mail.Message {
	i := v.row(v.selected) - len(v.questions)
	switch {
	case i < 0:
		return nil
	case v.opened.ID == v.selected:
		return &v.opened
	}
	return &v.messages[i]
}
