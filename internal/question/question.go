// Package question lets agents ask people and wait for the answer. A question outlives the agent
// and the daemon, is answered once, and keeps its deadline.
package question

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/store/ledger"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// Limits. Errors about them wrap ErrInvalid or ErrTooMany.
const (
	MaxText     = 16 << 10 // bytes of a question, and of an answer
	MaxOptions  = 20
	MaxOption   = 256                  // bytes of an option, of a name and of a key
	MaxOpen     = 100                  // open questions of an agent
	MaxEnded    = 200                  // ended questions of an agent; the oldest are removed
	MaxDeadline = 366 * 24 * time.Hour // counted from the time of asking
	KeepEnded   = 30 * 24 * time.Hour
)

// Errors. They are wrapped with the details.
var (
	ErrNotFound = api.NewError(api.ErrNotFound, "no such question")
	ErrInvalid  = api.NewError(api.ErrInvalid, "not accepted")
	ErrTooMany  = api.NewError(api.ErrConflict, "too many open questions")
	// ErrEnded means that the question was answered, withdrawn or has expired. The error says
	// which, by whom and when.
	ErrEnded = api.NewError(api.ErrConflict, "the question is no longer open")
)

// State is the state of a question.
type State string

const (
	Open      State = "open"
	Answered  State = "answered" // by a person, or with its default at the deadline
	Expired   State = "expired"  // at its deadline, without a default
	Withdrawn State = "withdrawn"
)

// ByDeadline is the author of an answer that is the default at the deadline.
const ByDeadline = "deadline"

// Question is a question. Times are of the wall clock.
type Question struct {
	_           struct{}  `doc:"A question to people."`
	ID          string    `json:"id" doc:"Such as q-7; never reused."`
	From        string    `json:"from" doc:"Path of the asking agent."` // or of a paused supervisor
	Incarnation uint64    `json:"incarnation" doc:"Of that agent."`
	Text        string    `json:"text" doc:"The question."`
	Options     []string  `json:"options" doc:"The possible answers; empty if any text is allowed."`
	Default     string    `json:"default,omitempty" doc:"The answer at the deadline."`
	Deadline    time.Time `json:"deadline,omitzero" doc:"Last time at which it can be answered."`
	At          time.Time `json:"at" doc:"When it was asked."`
	State       State     `json:"state" enum:"open,answered,expired,withdrawn" doc:"State of the question."`
	Answer      string    `json:"answer,omitempty" doc:"The answer."`
	By          string    `json:"by,omitempty" doc:"Author of the answer; deadline for the default."`
	EndedAt     time.Time `json:"ended_at,omitzero" doc:"When it ended."`
	TakenAt     time.Time `json:"taken_at,omitzero" doc:"When the agent took the answer."`
}

// Draft is a question to be asked.
type Draft struct {
	From        string
	Incarnation uint64
	Text        string
	Options     []string
	Default     string        // the answer at the deadline; "" for none
	Within      time.Duration // until the deadline; 0 for none
	// Key is the agent's own name for the question; may be empty. Asking again under the same key
	// returns the same question, even if it has ended.
	Key string
}

const prefixID = "q-"

func id(n uint64) string { return ledger.ID(prefixID, n) }

// parseID returns the number in an id.
func parseID(text string) (uint64, error) {
	n, err := ledger.ParseID(prefixID, text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return n, nil
}

// normalise cleans up a draft, and returns an ErrInvalid if it cannot be asked.
func (d Draft) normalise() (Draft, error) {
	d.Text, d.Default = clean(d.Text), clean(d.Default)
	options := []string{}
	for _, o := range d.Options {
		o = clean(o)
		switch {
		case o == "":
			return d, invalid("one of the options is empty")
		case len(o) > MaxOption:
			return d, invalid("an option has %d bytes, at most %d are allowed: %.40q", len(o), MaxOption, o)
		case strings.ContainsFunc(o, unicode.IsControl):
			return d, invalid("an option is not one line of plain text: %.80q", o)
		case slices.ContainsFunc(options, func(other string) bool { return strings.EqualFold(o, other) }):
			return d, invalid("the option %q is given twice", o)
		}
		options = append(options, o)
	}
	d.Options = options
	switch {
	case d.Text == "":
		return d, invalid("the question has no text")
	case len(d.Text) > MaxText:
		return d, invalid("the question has %d bytes, at most %d are allowed", len(d.Text), MaxText)
	case len(options) > MaxOptions:
		return d, invalid("there are %d options, at most %d are allowed", len(options), MaxOptions)
	case len(options) == 1:
		return d, invalid("there is one option only, which leaves nothing to ask")
	case d.Within < 0 || d.Within > MaxDeadline:
		return d, invalid("the deadline is %v from now, expected up to %v", d.Within, MaxDeadline)
	case d.Default != "" && d.Within == 0:
		return d, invalid("there is a default and no deadline at which it would be the answer")
	case len(d.Key) > MaxOption || !utf8.ValidString(d.Key):
		return d, invalid("the key has %d bytes, expected UTF-8 with at most %d", len(d.Key), MaxOption)
	}
	if d.Default != "" {
		var err error
		if d.Default, err = matchOption(d.Default, options); err != nil {
			return d, fmt.Errorf("the default: %w", err)
		}
	}
	return d, nil
}

func clean(text string) string { return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// matchOption returns an answer as it is stored: the spelling of the matching option, or the text
// itself if there are no options.
func matchOption(answer string, options []string) (string, error) {
	answer = clean(answer)
	switch {
	case answer == "":
		return "", invalid("the answer is empty")
	case len(answer) > MaxText:
		return "", invalid("the answer has %d bytes, at most %d are allowed", len(answer), MaxText)
	case len(options) == 0:
		return answer, nil
	}
	if i := slices.IndexFunc(options, func(o string) bool { return strings.EqualFold(answer, o) }); i >= 0 {
		return options[i], nil
	}
	hint := ""
	if near := suggest.Nearest(answer, options); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return "", invalid("%.80q is none of the options, which are %s%s", answer, quoted(options), hint)
}

func quoted(options []string) string {
	all := make([]string, len(options))
	for i, o := range options {
		all[i] = strconv.Quote(o)
	}
	return strings.Join(all, ", ")
}

// errEnded returns the error for a change of a question that has ended.
func (q Question) errEnded() error {
	at := q.EndedAt.Local().Format(time.DateTime)
	switch {
	case q.State == Answered && q.By == ByDeadline:
		return fmt.Errorf("%w: %s got its default %.80q at its deadline, %s", ErrEnded, q.ID, q.Answer, at)
	case q.State == Answered:
		return fmt.Errorf("%w: %s was answered by %s with %.80q at %s", ErrEnded, q.ID, q.By, q.Answer, at)
	case q.State == Expired:
		return fmt.Errorf("%w: %s has expired without an answer at %s", ErrEnded, q.ID, at)
	}
	return fmt.Errorf("%w: %s was withdrawn by %s at %s", ErrEnded, q.ID, q.From, at)
}

// The transitions of a question. Each returns the changed question.

func (q Question) answer(text, by string, now time.Time) (Question, error) {
	if q.State != Open {
		return q, q.errEnded()
	}
	text, err := matchOption(text, q.Options)
	if err != nil {
		return q, err
	}
	q.State, q.Answer, q.By, q.EndedAt = Answered, text, by, now
	return q, nil
}

// expire ends a question at its deadline.
func (q Question) expire(now time.Time) (Question, error) {
	switch {
	case q.State != Open:
		return q, q.errEnded()
	case q.Default != "":
		q.State, q.Answer, q.By, q.EndedAt = Answered, q.Default, ByDeadline, now
	default:
		q.State, q.EndedAt = Expired, now
	}
	return q, nil
}

func (q Question) withdraw(now time.Time) (Question, error) {
	if q.State != Open {
		return q, q.errEnded()
	}
	q.State, q.EndedAt = Withdrawn, now
	return q, nil
}

// take marks the outcome as known to the agent, if the question has ended.
func (q Question) take(now time.Time) (Question, error) {
	if q.State != Open && q.TakenAt.IsZero() {
		q.TakenAt = now
	}
	return q, nil
}

// timeLeft returns the time until the deadline. It never exceeds the original time, in case the
// clock was set back since.
func (q Question) timeLeft(now time.Time) time.Duration {
	return min(q.Deadline.Sub(now), q.Deadline.Sub(q.At))
}
