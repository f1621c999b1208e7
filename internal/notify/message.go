package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Need is something that waits for a person. Its texts are plain lines.
type Need struct {
	Subject string    `json:"subject"`          // a path, a question such as q-7, a task, or daemon, store, inbox
	State   string    `json:"state"`            // as coppice status and coppice report show it
	Text    string    `json:"text"`             // why
	From    string    `json:"from,omitempty"`   // the agent that asks
	Command string    `json:"command"`          // that helps
	NextAt  time.Time `json:"next_at,omitzero"` // when it goes on without a person
}

// KindOf returns the kind of a need; empty for one that nobody is notified of, as it goes on by itself.
func KindOf(n Need) spec.NotifyKind {
	quota := strings.HasPrefix(n.Subject, "quota ")
	switch n.State {
	case "question", "needs_input":
		return spec.NotifyInput
	case "reached":
		return spec.NotifyBudget
	case "stopped":
		if quota {
			return spec.NotifyQuota
		}
		return spec.NotifyStopped
	case "parked":
		if quota {
			return "" // until its limit resets
		}
		return spec.NotifyParked
	case "failing":
		if n.Subject == "store" {
			return spec.NotifyStore
		}
		return spec.NotifyFailing
	case "crash_loop", "restart_loop", "unresponsive":
		return spec.NotifyFailing
	case "quarantined", "given_up", "paused", "rejected", "mail", "was_down":
		return spec.NotifyKind(n.State)
	}
	return ""
}

// source returns what may flap: of a question the agent that asks, else the subject.
func (n Need) source() string {
	if n.From != "" {
		return n.From
	}
	return n.Subject
}

// Kinds of a Message.
const (
	KindNeeds  = "needs"
	KindReport = "report"
	KindTest   = "test"
)

// Bounds of a Message.
const (
	MaxShown = 20      // needs
	MaxText  = 100_000 // bytes of the text
	maxLine  = 600     // bytes of a line of the text
)

// Message is sent to people. Its JSON form is what webhooks and commands get; fields are added, not changed.
type Message struct {
	Version int       `json:"version"` // 1
	ID      string    `json:"id"`      // the same when a message is repeated
	Notify  string    `json:"notify"`  // the name of the [[notify]]
	Kind    string    `json:"kind"`    // needs, report or test
	Project string    `json:"project"`
	At      time.Time `json:"at"`
	Title   string    `json:"title"` // one line
	Text    string    `json:"text"`  // plain text; of a report, Markdown
	Urgent  bool      `json:"urgent"`
	Needs   []Need    `json:"needs"` // at most MaxShown
	More    int       `json:"more"`  // needs that are not listed

	keys    []string          // of the items that it tells
	sources map[string]string // of these, see Need.source
	date    string            // of a report
}

// newMessage returns a message with a list of needs.
func newMessage(n *spec.Notify, project string, now time.Time, items []due) *Message {
	m := &Message{Version: 1, Notify: n.Name, Kind: KindNeeds, Project: project, At: now.UTC(), Needs: []Need{},
		sources: map[string]string{}}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s", n.Name, project)
	var lines []string
	for _, d := range items {
		m.keys = append(m.keys, d.key)
		m.sources[d.key] = d.need.source()
		fmt.Fprintf(sum, "\x00%s\x00%s", d.key, d.item.Since.UTC().Format(time.RFC3339Nano))
		m.Urgent = m.Urgent || slices.Contains(n.Urgent, d.item.Kind)
		if len(m.Needs) == MaxShown {
			m.More++
			continue
		}
		m.Needs = append(m.Needs, d.need)
		line := d.need.line()
		if !d.pause.IsZero() {
			line += fmt.Sprintf(" (it comes and goes; you are not told again before %s)",
				d.pause.Format("15:04"))
		}
		if d.need.Command != "" {
			line += "\n  " + d.need.Command
		}
		lines = append(lines, "- "+line)
	}
	if m.More > 0 {
		lines = append(lines, fmt.Sprintf("- and %s more: coppice status", plaintext.Thousands(int64(m.More))))
	}
	m.ID = hex.EncodeToString(sum.Sum(nil)[:12])
	m.Title = plaintext.OneLine(project+": "+m.Needs[0].line(), 120)
	if all := len(items); all > 1 {
		m.Title = plaintext.OneLine(fmt.Sprintf("%s: %d need a person", project, all), 120)
	}
	m.Text = strings.Join(lines, "\n")
	return m
}

// line returns the need in a line.
func (n Need) line() string {
	if n.State == "question" {
		return plaintext.OneLine(n.Text, maxLine)
	}
	state := strings.ReplaceAll(n.State, "_", " ")
	return plaintext.OneLine(fmt.Sprintf("%s %s: %s", n.Subject, state, n.Text), maxLine)
}

// newReport returns a message with a report.
func newReport(n *spec.Notify, project, date string, now time.Time, text string) *Message {
	sum := sha256.Sum256([]byte("report\x00" + n.Name + "\x00" + project + "\x00" + date))
	return &Message{Version: 1, ID: hex.EncodeToString(sum[:12]), Notify: n.Name, Kind: KindReport, Project: project,
		At: now.UTC(), Title: plaintext.OneLine("report of "+project, 120), Text: plaintext.Cut(text, MaxText),
		Needs: []Need{}, date: date}
}

// newTest returns a message that only shows that messages arrive.
func newTest(n *spec.Notify, project string, now time.Time) *Message {
	sum := sha256.Sum256([]byte("test\x00" + n.Name + "\x00" + now.Format(time.RFC3339Nano)))
	return &Message{Version: 1, ID: hex.EncodeToString(sum[:12]), Notify: n.Name, Kind: KindTest, Project: project,
		At: now.UTC(), Title: plaintext.OneLine(project+": test", 120),
		Text: "This is a test of coppice notify. Nothing needs you.", Needs: []Need{}}
}
