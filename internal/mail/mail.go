// Package mail carries messages between agents and people. Messages are stored, so sender and
// recipient need not run at the same time.
package mail

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/store/ledger"
)

// People is the address of the mailbox that all people share. All other addresses are full paths
// of agents.
const People = "people"

// Limits. Errors about them wrap ErrInvalid or ErrFull.
const (
	MaxBody     = 64 << 10            // bytes of a body
	MaxSubject  = 256                 // bytes of a subject
	MaxKey      = 128                 // bytes of the sender's key
	MaxUnread   = 1000                // unread messages of a mailbox
	MaxMessages = 10_000              // messages of a mailbox; the oldest read ones are removed first
	maxBatch    = 40                  // messages that are read, archived or delivered at a time
	KeepArchive = 30 * 24 * time.Hour // minimum age of removed messages, unless MaxMessages is reached
)

// Errors. They are wrapped with the details.
var (
	ErrNotFound = api.NewError(api.ErrNotFound, "no such message")
	ErrInvalid  = api.NewError(api.ErrInvalid, "invalid message")
	ErrFull     = api.NewError(api.ErrConflict, "mailbox is full")
	ErrLost     = errors.New("the text of the message is lost")
)

// Message is a message. Times are of the wall clock.
type Message struct {
	_           struct{}  `doc:"A message."`
	ID          string    `json:"id" doc:"Such as m-7; never reused."`
	From        string    `json:"from" doc:"Path of the sending agent, or people."`
	Incarnation uint64    `json:"incarnation,omitempty" doc:"Of that agent."`
	To          string    `json:"to" doc:"Path of an agent, or people."`
	Subject     string    `json:"subject" doc:"One line."`
	Body        string    `json:"body,omitempty" doc:"The text; only in answers to read."`
	Size        int       `json:"size" minimum:"0" doc:"Bytes of the body."`
	At          time.Time `json:"at" doc:"When it was sent."`
	ReplyTo     string    `json:"reply_to,omitempty" doc:"The message that it replies to."`
	Question    string    `json:"question,omitempty" doc:"The question that it answers."`
	ReadAt      time.Time `json:"read_at,omitzero" doc:"When it was first read."`
	ReadBy      uint64    `json:"read_by,omitempty" doc:"The incarnation of the agent that read it."`
	ArchivedAt  time.Time `json:"archived_at,omitzero" doc:"When it was archived."`
	Told        uint64    `json:"told,omitempty" doc:"The last incarnation to which it was delivered."`
}

// Unread reports whether the message is neither read nor archived.
func (m *Message) Unread() bool { return m.ReadAt.IsZero() && m.ArchivedAt.IsZero() }

// Post is a message to be sent.
type Post struct {
	From        string // People, or the full path of an agent
	Incarnation uint64 // of that agent
	To          string // as From; "" to reply
	Subject     string // the beginning of the body if empty
	Body        string
	ReplyTo     string // a message that the sender has received or sent
	Question    string
	// Key is the sender's own name for the message; may be empty. A message that is sent again
	// under the same key, as after a lost answer, is delivered once.
	Key string
}

// prefixID is the prefix of message ids.
const prefixID = "m-"

func id(n uint64) string { return ledger.ID(prefixID, n) }

// parseID returns the number in an id.
func parseID(text string) (uint64, error) {
	n, err := ledger.ParseID(prefixID, text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return n, nil
}

// normalise cleans up a post, and returns an ErrInvalid if it cannot be sent.
func (p Post) normalise() (Post, error) {
	p.Subject = strings.TrimSpace(strings.ToValidUTF8(p.Subject, "\uFFFD"))
	p.Body = strings.ToValidUTF8(p.Body, "\uFFFD")
	switch {
	case len(p.Body) > MaxBody:
		return p, invalid("the body has %d bytes, at most %d are allowed; write it to a file and send its path",
			len(p.Body), MaxBody)
	case len(p.Subject) > MaxSubject:
		return p, invalid("the subject has %d bytes, at most %d are allowed; put the rest into the body",
			len(p.Subject), MaxSubject)
	case strings.ContainsFunc(p.Subject, unicode.IsControl):
		return p, invalid("the subject is not one line of plain text: %.80q", p.Subject)
	case p.Subject == "" && strings.TrimSpace(p.Body) == "" && p.ReplyTo == "":
		return p, invalid("it has neither a subject nor a body")
	case p.To == "" && p.ReplyTo == "":
		return p, invalid(`missing recipient: an agent's path, or "people"`)
	}
	return p, checkKey(p.Key)
}

func checkKey(key string) error {
	if len(key) > MaxKey || !utf8.ValidString(key) {
		return invalid("the key has %d bytes, expected UTF-8 with at most %d", len(key), MaxKey)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// maxTitle bounds a Title, in runes.
const maxTitle = 60

// Title returns the first line of a text that is not blank, shortened. Control characters are
// removed, including those that change the writing direction.
func Title(text string) string {
	for line := range strings.Lines(text) {
		line = strings.Join(strings.FieldsFunc(line, isBlank), " ")
		if r := []rune(line); len(r) > maxTitle {
			return string(r[:maxTitle-1]) + "…"
		}
		if line != "" {
			return line
		}
	}
	return ""
}

func isBlank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// replySubject returns the subject of a reply.
func replySubject(subject string) string {
	if strings.HasPrefix(subject, "Re: ") {
		return subject
	}
	if subject = "Re: " + subject; len(subject) > MaxSubject {
		subject = strings.ToValidUTF8(subject[:MaxSubject], "")
	}
	return subject
}
