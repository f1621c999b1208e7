// Package sdnotify understands what services report of themselves, so that daemons
// which were written for systemd work unchanged: the messages of sd_notify(3),
// and what is known of a service after it has sent some. It does no I/O and
// reads no clock.
package sdnotify

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxMessage bounds a message, in bytes, as systemd does. Longer ones are
	// not looked at.
	MaxMessage = 4 << 10
	// MaxStatus bounds Notice.Status, in bytes.
	MaxStatus = 256
	// maxDuration is more than any service asks for, and no overflow.
	maxDuration = 1 << 20 * time.Hour
)

// Message is what one message says that matters here. What systemd knows beside
// that is ignored on purpose: see docs/notify.md.
type Message struct {
	Ready     bool          // READY=1
	Reloading bool          // RELOADING=1; over with the next READY=1
	Stopping  bool          // STOPPING=1
	Alive     bool          // WATCHDOG=1
	Trigger   bool          // WATCHDOG=trigger
	Period    time.Duration // WATCHDOG_USEC; 0: does not say
	Extend    time.Duration // EXTEND_TIMEOUT_USEC; 0: does not say
	Errno     int           // ERRNO; 0: does not say
	Status    *string       // STATUS, as it was sent; nil: does not say
}

// Parse reads a message: assignments, one a line. Lines that are none, that
// are unknown or whose value makes no sense are left out; a message that is
// too long, or has a zero byte that is not its last, says nothing at all.
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

// microseconds is 0 for what is no number, nothing at all, or for ever.
func microseconds(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > uint64(maxDuration/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// Notice is what a service has said so far.
type Notice struct {
	// Since is when listening began; zero: there is no listener, and nothing
	// follows from silence.
	Since time.Time
	// Heard is when the last message came, whatever it said; zero if none has.
	Heard time.Time
	// Status is what it says that it does: plain text of one line, at most
	// MaxStatus bytes. Empty if it does not say.
	Status string
	// Alive is when the last WATCHDOG=1 came; zero if none has.
	Alive time.Time
	// Period is how often WATCHDOG=1 has to come, if it wants something else
	// than it was told; 0 if not.
	Period time.Duration
	// Until is the time before which it is not to be given up (EXTEND_TIMEOUT_USEC).
	Until time.Time
	// Triggered: it has found itself to be broken.
	Triggered bool
	// Stopping is when it said that it ends by itself, which is final; zero if it has not.
	Stopping time.Time
	// Reloading: it reads its configuration, until it is ready again.
	Reloading bool
	// Errno is why it fails, as it says; 0 if it does not.
	Errno int
}

// Urgency is how soon somebody wants to know what a message has changed.
type Urgency uint8

const (
	Nothing Urgency = iota // has changed
	Sign                   // of life: it comes again and again
	Words                  // for people
	Once                   // what happens once in a life
)

// Hear takes in a message that came at now. plain makes text safe for terminals.
func (n *Notice) Hear(m Message, now time.Time, plain func(string) string) Urgency {
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

// Recall takes over what was said before somebody else began to listen, but for
// the signs of life: who is new has not missed any.
func (n *Notice) Recall(before Notice) {
	n.Status, n.Errno = before.Status, before.Errno
	n.Triggered, n.Stopping, n.Reloading = before.Triggered, before.Stopping, before.Reloading
	n.Period = before.Period
}

// shorten cuts text to MaxStatus bytes, which shows.
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

// Pace is how often it may be told what a service says, however often it does.
type Pace struct{ last time.Time }

// The shortest times between two tellings. What happens once in a life is told at once.
const (
	signInterval  = time.Second
	wordsInterval = 250 * time.Millisecond
)

// Wait is how long to wait with the next telling; what comes meanwhile is told with it.
func (p Pace) Wait(u Urgency, now time.Time) time.Duration {
	switch u {
	case Sign:
		return max(0, p.last.Add(signInterval).Sub(now))
	case Words:
		return max(0, p.last.Add(wordsInterval).Sub(now))
	}
	return 0
}

// Told notes that everything was told at now.
func (p *Pace) Told(now time.Time) { p.last = now }
