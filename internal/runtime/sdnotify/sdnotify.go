// Package sdnotify parses the messages of sd_notify(3), by which services report their state,
// and keeps the resulting state. So daemons that were written for systemd work unchanged. It
// does no I/O and reads no clock.
package sdnotify

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxMessage bounds a message, in bytes, as in systemd. Longer messages are ignored.
	MaxMessage = 4 << 10
	// MaxStatus bounds Notice.Status, in bytes.
	MaxStatus = 256
	// maxDuration is more than any service asks for, and does not overflow.
	maxDuration = 1 << 20 * time.Hour
)

// Message is a parsed message. Other assignments that systemd knows are ignored on purpose: see
// docs/sd-notify.md.
type Message struct {
	Ready     bool          // READY=1
	Reloading bool          // RELOADING=1; ends with the next READY=1
	Stopping  bool          // STOPPING=1
	Alive     bool          // WATCHDOG=1
	Trigger   bool          // WATCHDOG=trigger
	Period    time.Duration // WATCHDOG_USEC; 0 if absent
	Extend    time.Duration // EXTEND_TIMEOUT_USEC; 0 if absent
	Errno     int           // ERRNO; 0 if absent
	Status    *string       // STATUS, as it was sent; nil if absent
}

// Parse parses a message of assignments, one a line. It skips lines that it does not understand.
// A message that is too long, or has a zero byte before its end, is empty.
func Parse(b []byte) Message {
	var m Message
	b = bytes.TrimSuffix(b, []byte{0})
	if len(b) > MaxMessage || bytes.IndexByte(b, 0) >= 0 {
		return m
	}
	for line := range strings.FieldsFuncSeq(string(b), func(r rune) bool { return r == '\n' || r == '\r' }) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		one := value == "1"
		switch name {
		case "READY":
			m.Ready = m.Ready || one
		case "RELOADING":
			m.Reloading = m.Reloading || one
		case "STOPPING":
			m.Stopping = m.Stopping || one
		case "WATCHDOG":
			m.Alive = m.Alive || one
			m.Trigger = m.Trigger || value == "trigger"
		case "WATCHDOG_USEC":
			m.Period = microseconds(value)
		case "EXTEND_TIMEOUT_USEC":
			m.Extend = microseconds(value)
		case "ERRNO":
			if n, err := strconv.ParseUint(value, 10, 12); err == nil { // MAX_ERRNO is 4095
				m.Errno = int(n)
			}
		case "STATUS":
			m.Status = &value
		}
	}
	return m
}

// microseconds returns 0 for an invalid number, zero, and infinity.
func microseconds(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > uint64(maxDuration/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// Notice is the state that a service has reported.
type Notice struct {
	// Since is when listening began. It is zero without a listener; then silence means nothing.
	Since time.Time
	// Heard is when the last message came; zero if none has.
	Heard time.Time
	// Status is the reported status: one line of plain text, at most MaxStatus bytes. It is
	// empty if none was reported.
	Status string
	// Alive is when the last WATCHDOG=1 came; zero if none has.
	Alive time.Time
	// Period is the interval of WATCHDOG=1 that the service asked for; 0 if it did not.
	Period time.Duration
	// Until is the time before which the service must not be given up (EXTEND_TIMEOUT_USEC).
	Until time.Time
	// Triggered means that the service has reported that it is broken.
	Triggered bool
	// Stopping is when it reported that it is stopping, which is final; zero if it has not.
	Stopping time.Time
	// Reloading means that it reads its configuration, until it is ready again.
	Reloading bool
	// Errno is the reported reason of a failure; 0 if there is none.
	Errno int
}

// Urgency tells how soon a change should be passed on.
type Urgency uint8

const (
	Nothing Urgency = iota // nothing has changed
	Sign                   // a sign of life, which comes again and again
	Words                  // text for people
	Once                   // happens once in the life of a service
)

// Apply applies a message that came at now. plain makes text safe for terminals.
func (n *Notice) Apply(m Message, now time.Time, plain func(string) string) Urgency {
	urgency := Sign
	n.Heard = now
	raise := func(u Urgency) { urgency = max(urgency, u) }
	if m.Alive || m.Period > 0 {
		n.Alive = now
	}
	if m.Period > 0 {
		n.Period = m.Period
	}
	if m.Extend > 0 {
		if until := now.Add(m.Extend); until.After(n.Until) {
			n.Until = until
		}
	}
	if m.Errno != 0 && m.Errno != n.Errno {
		n.Errno = m.Errno
		raise(Words)
	}
	if m.Status != nil {
		if s := shorten(strings.TrimSpace(plain(*m.Status))); s != n.Status {
			n.Status = s
			raise(Words)
		}
	}
	if reloading := (n.Reloading || m.Reloading) && !m.Ready; reloading != n.Reloading {
		n.Reloading = reloading
		raise(Words)
	}
	if m.Trigger && !n.Triggered {
		n.Triggered = true
		raise(Once)
	}
	if m.Stopping && n.Stopping.IsZero() {
		n.Stopping = now
		raise(Once)
	}
	return urgency
}

// Recall restores what was reported to an earlier listener, except for signs of life, because
// the new listener has not missed any.
func (n *Notice) Recall(before Notice) {
	n.Status, n.Errno = before.Status, before.Errno
	n.Triggered, n.Stopping, n.Reloading = before.Triggered, before.Stopping, before.Reloading
	n.Period = before.Period
}

// shorten cuts text to MaxStatus bytes and marks the cut.
func shorten(s string) string {
	const more = "…"
	if len(s) <= MaxStatus {
		return s
	}
	cut := MaxStatus - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// Pace limits how often changes are passed on.
type Pace struct{ last time.Time }

// The minimum times between two reports. What happens once in a life is reported immediately.
const (
	signInterval  = time.Second
	wordsInterval = 250 * time.Millisecond
)

// Wait returns how long to wait before the next report, which includes the changes until then.
func (p Pace) Wait(u Urgency, now time.Time) time.Duration {
	switch u {
	case Sign:
		return max(0, p.last.Add(signInterval).Sub(now))
	case Words:
		return max(0, p.last.Add(wordsInterval).Sub(now))
	}
	return 0
}

// Told records that everything was reported at now.
func (p *Pace) Told(now time.Time) { p.last = now }
