package spec

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Via is a way by which people are notified.
type Via string

// Ways to notify people.
const (
	Webhook Via = "webhook" // POST of JSON
	Ntfy    Via = "ntfy"    // a topic of an ntfy server
	Slack   Via = "slack"   // an incoming webhook of Slack
	Mail    Via = "mail"    // SMTP
	Desktop Via = "desktop" // a notification on the desktop of this machine
	Command Via = "command" // a command that reads JSON
)

// Ways returns all ways to notify people.
func Ways() []Via { return []Via{Webhook, Ntfy, Slack, Mail, Desktop, Command} }

// NotifyKind is a kind of what people are notified of. The words are those of coppice status.
type NotifyKind string

// Kinds of what people are notified of.
const (
	NotifyInput       NotifyKind = "needs_input" // a question to people is open
	NotifyQuarantined NotifyKind = "quarantined"
	NotifyGivenUp     NotifyKind = "given_up"
	NotifyPaused      NotifyKind = "paused"   // a supervisor, or the tasks of a pool
	NotifyStopped     NotifyKind = "stopped"  // an agent has failed and is not restarted
	NotifyFailing     NotifyKind = "failing"  // an agent fails again and again, or is unresponsive
	NotifyBudget      NotifyKind = "budget"   // a budget is reached
	NotifyQuota       NotifyKind = "quota"    // an account has no valid login, or no money
	NotifyParked      NotifyKind = "parked"   // a task
	NotifyRejected    NotifyKind = "rejected" // a version of the configuration
	NotifyMail        NotifyKind = "mail"     // messages to people are unread
	NotifyStore       NotifyKind = "store"    // the store takes no writes
	NotifyDown        NotifyKind = "was_down" // the previous daemon was killed or has crashed
)

// NotifyKinds returns all kinds.
func NotifyKinds() []NotifyKind {
	return append(DefaultNotifyKinds(), NotifyFailing, NotifyMail)
}

// DefaultNotifyKinds returns the kinds of which people are notified unless the file says otherwise: all that go on
// only when a person acts.
func DefaultNotifyKinds() []NotifyKind {
	return []NotifyKind{
		NotifyInput, NotifyQuarantined, NotifyGivenUp, NotifyPaused, NotifyStopped, NotifyBudget, NotifyQuota,
		NotifyParked, NotifyRejected, NotifyStore, NotifyDown,
	}
}

// Bounds of notifications.
const (
	MaxNotify     = 20 // [[notify]] tables
	DefaultDigest = 10 * time.Second
	MaxDigest     = 24 * time.Hour
	// DefaultNotifyLimit bounds a command that notifies people.
	DefaultNotifyLimit = 30 * time.Second
)

// Notify says how and of what people are notified.
type Notify struct {
	Name string
	Via  Via
	// On are the kinds of which people are notified, and Urgent those that do not wait for the end of Quiet.
	On, Urgent []NotifyKind
	// Digest is the time for which needs are collected into one message.
	Digest time.Duration
	Quiet  Hours
	// Report is the time of day at which the report is sent; nil if it is not.
	Report *Clock

	URL       string // of a webhook, a topic, or a page to open
	URLFrom   Secret // the URL, where that is a secret
	Token     Secret // proves who sends, or is the password of User
	Header    string // that carries the token of a webhook; Authorization, with Bearer, if empty
	Signature Secret // the key of the HMAC of a webhook

	Priority int // of ntfy, 1 to 5; 0 for that of the server
	Tags     []string
	Click    string // URL

	Host     string
	Port     int
	TLS      string // starttls, tls or none
	User     string
	From, To []string // From has one address

	Command []string
	Dir     string // absolute
	Timeout time.Duration
}

// Secret is the place of a value that is not in the file: a variable of the daemon's environment, or the absolute path
// of a file. It is read when it is used.
type Secret struct{ Env, File string }

// IsSet reports whether there is a place.
func (s Secret) IsSet() bool { return s != Secret{} }

// Notifies reports whether people are notified of a kind.
func (n *Notify) Notifies(k NotifyKind) bool { return slices.Contains(n.On, k) }

// Clock is a time of day, in minutes after midnight.
type Clock int

// ParseClock reads a time of day such as 07:30.
func ParseClock(text string) (Clock, error) {
	if len(text) == 5 && text[2] == ':' {
		h, hErr := strconv.ParseUint(text[:2], 10, 8)
		m, mErr := strconv.ParseUint(text[3:], 10, 8)
		if hErr == nil && mErr == nil && h < 24 && m < 60 {
			return Clock(h*60 + m), nil
		}
	}
	return 0, fmt.Errorf("%s is not a time of day, expected one such as %s", Quote(text), `"07:30"`)
}

// ClockOf returns what a clock shows at a time.
func ClockOf(t time.Time) Clock { return Clock(t.Hour()*60 + t.Minute()) }

// String returns the time of day as in a file.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", c/60, c%60) }

// Hours are a part of each day, which may go across midnight. The zero value is none.
type Hours struct{ From, To Clock }

// Contain reports whether a time of day is in the hours. The end is not.
func (h Hours) Contain(c Clock) bool {
	if h.From <= h.To {
		return h.From <= c && c < h.To
	}
	return c >= h.From || c < h.To
}
