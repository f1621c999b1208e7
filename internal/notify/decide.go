package notify

import (
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Bounds of what is told.
const (
	// maxItems bounds the needs that are remembered. Those after them wait until others are over.
	maxItems = 2000
	// maxPerHour bounds how often people are told about one agent or other subject within an hour.
	maxPerHour = 6
	flapWindow = time.Hour
	// firstRetry and lastRetry bound the growing delay after a failed delivery.
	firstRetry, lastRetry = 5 * time.Second, time.Hour
	// reportSpan is the time that the first report covers; maxReportSpan bounds that of all reports.
	reportSpan, maxReportSpan = 24 * time.Hour, 7 * 24 * time.Hour
	// presence is the time after an action of a person during which needs are held back.
	presence = time.Minute
)

// State records what one [[notify]] has told. It is stored, so that a new daemon neither repeats nor loses anything.
type State struct {
	// Items are the needs that there are, by subject.
	Items map[string]Item `json:"items,omitempty"`
	// Told has the times within the last hour at which people were told, by source.
	Told map[string][]time.Time `json:"told,omitempty"`
	// WasDown is a need that is over as soon as it is told.
	WasDown *Need `json:"was_down,omitempty"`
	// ReportedOn is the local date of the last report, and ReportedAt its time.
	ReportedOn string    `json:"reported_on,omitempty"`
	ReportedAt time.Time `json:"reported_at,omitzero"`

	// Failures counts the failed deliveries since the last one that was not; RetryAt is when the next is tried.
	Failures  int       `json:"failures,omitempty"`
	RetryAt   time.Time `json:"retry_at,omitzero"`
	LastError string    `json:"last_error,omitempty"`
	LastSent  time.Time `json:"last_sent,omitzero"`
}

// Item is a need that there is.
type Item struct {
	Kind  spec.NotifyKind `json:"kind"`
	Since time.Time       `json:"since"` // when it was first seen
	Told  bool            `json:"told,omitempty"`
}

// Input has the facts for a decision, besides settings and state.
type Input struct {
	Now     time.Time // local
	Project string
	Needs   []Need // all that there are
	// Seen is the time of a person's last action on a screen that shows needs; zero if there was none.
	Seen time.Time
}

// present returns the end of the presence of a person; zero if that is over.
func present(seen, now time.Time) time.Time {
	if end := seen.Add(presence); !seen.After(now) && end.After(now) {
		return end
	}
	return time.Time{}
}

// Decision says what to do now.
type Decision struct {
	// State is the next one. Items of Message are told only when it was delivered, see State.Sent.
	State State
	// Message is to be sent now; nil if there is none.
	Message *Message
	// Report says that the report is due, for the time after ReportSince.
	Report      bool
	ReportSince time.Time
	reportDate  string
	// Next is the time of the next decision, unless needs change before; zero for never.
	Next time.Time
}

// due is a need that is not told yet.
type due struct {
	key   string
	item  Item
	need  Need
	at    time.Time // when it may be told
	pause time.Time // when people are told of its source again, if this is the last time for now
}

// Decide decides what people are told. It changes nothing. While there is no message to be sent, each need that is new
// waits for the digest, and for the end of the quiet hours, of the pause of a source that flaps, and of the presence of
// a person.
func Decide(n *spec.Notify, told State, in Input) Decision {
	s := told.clone()
	pending := s.observe(n, in)
	if s.ReportedOn == "" && n.Report != nil { // it was just declared
		s.ReportedOn = reportDate(*n.Report, in.Now)
	}
	d := Decision{State: s}
	if in.Now.Before(s.RetryAt) && s.RetryAt.Sub(in.Now) <= lastRetry { // else the clock was set back
		d.Next = s.RetryAt
		return d
	}
	var now []due
	ready := false
	for _, p := range pending {
		p.at = p.item.Since.Add(n.Digest)
		held := s.flapEnd(p.need.source(), in.Now)
		if !slices.Contains(n.Urgent, p.item.Kind) {
			held = laterOf(held, laterOf(quietEnd(n.Quiet, in.Now), present(in.Seen, in.Now)))
		}
		if !held.After(in.Now) {
			now = append(now, p)
			ready = ready || !p.at.After(in.Now)
		}
		d.Next = earlierOf(d.Next, laterOf(p.at, held))
	}
	if ready {
		d.Message = newMessage(n, in.Project, in.Now, s.paused(now, in.Now))
	}
	if n.Report != nil {
		if date := reportDate(*n.Report, in.Now); date > s.ReportedOn { // clocks that are set back repeat no report
			d.Report, d.reportDate = true, date
			d.ReportSince = laterOf(s.ReportedAt, in.Now.Add(-maxReportSpan))
			if s.ReportedAt.IsZero() {
				d.ReportSince = in.Now.Add(-reportSpan)
			}
		} else {
			d.Next = earlierOf(d.Next, nextReport(*n.Report, in.Now))
		}
	}
	return d
}

// observe compares the items with the needs that there are, and returns those that are not told, in their order.
func (s *State) observe(n *spec.Notify, in Input) (pending []due) {
	needs := in.Needs
	if s.WasDown != nil {
		if n.Notifies(spec.NotifyDown) {
			needs = append([]Need{*s.WasDown}, needs...)
		} else {
			s.WasDown = nil
		}
	}
	items := make(map[string]Item)
	for _, need := range needs {
		kind := KindOf(need)
		if _, twice := items[need.Subject]; twice || kind == "" || !n.Notifies(kind) || len(items) == maxItems {
			continue
		}
		item, known := s.Items[need.Subject]
		if !known || item.Kind != kind {
			item = Item{Kind: kind, Since: in.Now.Round(0)}
		}
		if item.Since.After(in.Now) { // the clock was set back
			item.Since = in.Now.Round(0)
		}
		items[need.Subject] = item
		if !item.Told {
			pending = append(pending, due{key: need.Subject, item: item, need: need})
		}
	}
	s.Items = items
	for source, times := range s.Told {
		times = slices.DeleteFunc(times, func(t time.Time) bool {
			return in.Now.Sub(t) >= flapWindow || t.After(in.Now)
		})
		if s.Told[source] = times; len(times) == 0 {
			delete(s.Told, source)
		}
	}
	return pending
}

// flapEnd returns when people may be told about a source again; zero for now.
func (s *State) flapEnd(source string, now time.Time) time.Time {
	if times := s.Told[source]; len(times) >= maxPerHour {
		return times[len(times)-maxPerHour].Add(flapWindow).In(now.Location())
	}
	return time.Time{}
}

// paused returns the needs with the end of the pause that follows, where the message is the last one for now about a
// source.
func (s *State) paused(all []due, now time.Time) []due {
	for i := range all {
		if times := s.Told[all[i].need.source()]; len(times) == maxPerHour-1 {
			all[i].pause = times[0].Add(flapWindow).In(now.Location())
		}
	}
	return all
}

// Sent returns the state after a message was delivered.
func (s State) Sent(m *Message, now time.Time) State {
	s = s.clone()
	now = now.Round(0)
	s.Failures, s.RetryAt, s.LastError, s.LastSent = 0, time.Time{}, "", now
	if m.Kind == KindReport {
		s.ReportedOn, s.ReportedAt = m.date, now
	}
	sources := map[string]bool{}
	for _, key := range m.keys {
		if item, ok := s.Items[key]; ok {
			item.Told = true
			s.Items[key] = item
		}
		if s.WasDown != nil && s.WasDown.Subject == key {
			s.WasDown = nil
		}
		sources[m.sources[key]] = true
	}
	for source := range sources {
		if s.Told == nil {
			s.Told = map[string][]time.Time{}
		}
		s.Told[source] = append(s.Told[source], now)
	}
	return s
}

// Failed returns the state after a delivery has failed.
func (s State) Failed(reason string, now time.Time) State {
	s = s.clone()
	delay := firstRetry
	for range s.Failures {
		delay = min(2*delay, lastRetry)
	}
	s.Failures, s.RetryAt, s.LastError = s.Failures+1, now.Round(0).Add(delay), reason
	return s
}

// clone returns a copy that shares nothing.
func (s State) clone() State {
	s.Items = maps.Clone(s.Items)
	told := make(map[string][]time.Time, len(s.Told))
	for source, times := range s.Told {
		told[source] = slices.Clone(times)
	}
	s.Told = told
	return s
}

// laterOf and earlierOf return one of two times. A zero time is none.
func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
