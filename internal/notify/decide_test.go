package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/spec"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func question(id, from string) Need {
	return Need{Subject: id, State: "question", Text: from + " asks: which?", From: from,
		Command: "coppice answer " + id}
}

func ill(path, state string) Need {
	return Need{Subject: path, State: state, Text: "exit code 1; 5 of 5 starts", Command: "coppice logs " + path}
}

// person plays the deliveries of one [[notify]].
type person struct {
	t     testing.TB
	n     spec.Notify
	state State
	now   time.Time
	needs []Need
	seen  time.Time
}

func newPerson(t testing.TB) *person {
	return &person{t: t, now: noon, n: spec.Notify{Name: "n", On: spec.NotifyKinds(), Digest: 10 * time.Second}}
}

func (p *person) decide() Decision {
	return Decide(&p.n, p.state, Input{Now: p.now, Project: "t", Needs: p.needs, Seen: p.seen})
}

// after decides after a time, and delivers; it returns the subjects that are told.
func (p *person) after(d time.Duration) []string {
	p.t.Helper()
	p.now = p.now.Add(d)
	decision := p.decide()
	p.state = decision.State
	if decision.Message == nil {
		return nil
	}
	p.state = p.state.Sent(decision.Message, p.now)
	return decision.Message.keys
}

// wants expects what is told after a time.
func (p *person) wants(d time.Duration, subjects ...string) {
	p.t.Helper()
	if got := p.after(d); !slices.Equal(got, subjects) {
		p.t.Fatalf("after %v, at %v: told of %q, want %q", d, p.now, got, subjects)
	}
}

// nothing expects that nothing is told, and the time of the next decision.
func (p *person) nothing(d, next time.Duration) {
	p.t.Helper()
	p.wants(d)
	at := p.decide().Next
	if next == 0 && !at.IsZero() || next != 0 && !at.Equal(p.now.Add(next)) {
		p.t.Fatalf("at %v: the next decision is at %v, want %v", p.now, at, p.now.Add(next))
	}
}

func TestOnceAndAgain(t *testing.T) {
	p := newPerson(t)
	p.nothing(0, 0)
	p.needs = []Need{question("q-1", "t/a")}
	p.nothing(0, 10*time.Second)
	p.needs = append(p.needs, ill("t/b", "quarantined"))
	p.nothing(4*time.Second, 6*time.Second)
	p.wants(6*time.Second, "q-1", "t/b") // one message
	p.nothing(time.Hour, 0)
	p.needs[1].Text = "exit code 1; 4 of 5 starts" // a counter
	p.nothing(time.Hour, 0)
	p.needs[1].State = "given_up"
	p.nothing(time.Second, 10*time.Second)
	p.wants(10*time.Second, "t/b")
	p.needs = p.needs[:1] // over
	p.nothing(time.Minute, 0)
	p.needs = append(p.needs, ill("t/b", "given_up")) // and back
	p.nothing(time.Second, 10*time.Second)
	p.wants(10*time.Second, "t/b")
	p.needs = append(p.needs, ill("t/c", "quarantined"))
	p.nothing(time.Second, 10*time.Second)
	p.needs = p.needs[:2] // over before it was told
	p.nothing(time.Second, 0)
}

func TestOnlyKinds(t *testing.T) {
	for _, c := range []struct {
		need Need
		kind spec.NotifyKind
	}{
		{question("q-1", "t/a"), spec.NotifyInput},
		{ill("budget night", "reached"), spec.NotifyBudget},
		{ill("quota main", "stopped"), spec.NotifyQuota},
		{ill("quota main", "parked"), ""},
		{ill("quota main", "probing"), ""},
		{ill("t-1", "parked"), spec.NotifyParked},
		{ill("t/a", "stopped"), spec.NotifyStopped},
		{ill("t/a", "failing"), spec.NotifyFailing},
		{ill("t/a", "crash_loop"), spec.NotifyFailing},
		{ill("t/a", "unresponsive"), spec.NotifyFailing},
		{ill("store", "failing"), spec.NotifyStore},
		{ill("t/a", "restarting"), ""},
		{ill("t/a", "waiting"), ""},
		{ill("coppice.toml", "rejected"), spec.NotifyRejected},
		{ill("tasks of pool p", "paused"), spec.NotifyPaused},
		{ill("tasks of pool p", "probes"), ""},
		{ill("project", "suspended"), ""},
		{ill("daemon", "was_down"), spec.NotifyDown},
		{ill("inbox", "mail"), spec.NotifyMail},
	} {
		if k := KindOf(c.need); k != c.kind {
			t.Errorf("%s %s is %q, want %q", c.need.Subject, c.need.State, k, c.kind)
		}
	}
	p := newPerson(t)
	p.n.On = []spec.NotifyKind{spec.NotifyInput}
	p.n.Digest = 0
	p.needs = []Need{ill("t/a", "quarantined"), ill("t/b", "restarting"), question("q-1", "t/a")}
	p.wants(0, "q-1")
	p.n.On = spec.DefaultNotifyKinds() // the file was changed
	p.wants(0, "t/a")
}

// Who looks is not told, unless it is urgent; what is over before he leaves is never told.
func TestPresence(t *testing.T) {
	p := newPerson(t)
	p.n.Urgent = []spec.NotifyKind{spec.NotifyStore}
	p.seen = p.now
	p.needs = []Need{question("q-1", "t/a"), question("q-2", "t/a"), ill("store", "failing")}
	p.nothing(0, 10*time.Second)
	p.wants(10*time.Second, "store")
	p.nothing(0, 50*time.Second)
	p.needs = p.needs[:2]
	p.seen = p.now.Add(40 * time.Second)
	p.needs = p.needs[1:] // q-1 was answered
	p.nothing(50*time.Second, 50*time.Second)
	p.wants(50*time.Second, "q-2")

	p.needs = append(p.needs, question("q-3", "t/a"))
	p.seen = p.now.Add(time.Hour) // the clock was set back
	p.nothing(0, 10*time.Second)
	p.wants(10*time.Second, "q-3")
}

func TestQuiet(t *testing.T) {
	p := newPerson(t)
	p.now = time.Date(2026, 11, 29, 21, 59, 55, 0, time.UTC)
	p.n.Quiet = spec.Hours{From: 22 * 60, To: 7 * 60}
	p.n.Urgent = []spec.NotifyKind{spec.NotifyStore}
	p.needs = []Need{question("q-1", "t/a"), question("q-2", "t/a")}
	p.nothing(0, 10*time.Second)
	p.nothing(5*time.Second, 9*time.Hour) // quiet begins before the digest ends
	p.needs = append(p.needs, ill("t/b", "quarantined"))
	p.needs = append(p.needs, ill("store", "failing"))
	p.nothing(3*time.Hour, 10*time.Second)
	p.wants(10*time.Second, "store")
	p.needs = p.needs[1:] // q-1 was answered in the night
	p.nothing(0, 6*time.Hour-10*time.Second)
	p.wants(6*time.Hour-10*time.Second, "q-2", "t/b")
}

// Quiet hours are those of the clock on the wall, also on days on which it is changed.
func TestQuietDaylightSaving(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		exectest.Missing(t, err)
	}
	for _, c := range []struct {
		from, to string
		now, end time.Time
	}{
		{"22:00", "07:00", time.Date(2026, 3, 28, 23, 0, 0, 0, berlin), time.Date(2026, 3, 29, 7, 0, 0, 0, berlin)},
		{"22:00", "07:00", time.Date(2026, 10, 24, 23, 0, 0, 0, berlin), time.Date(2026, 10, 25, 7, 0, 0, 0, berlin)},
		{"22:00", "02:30", time.Date(2026, 3, 29, 1, 59, 59, 5, berlin), time.Date(2026, 3, 29, 3, 0, 0, 0, berlin)},
		{"02:30", "05:00", time.Date(2026, 3, 29, 1, 59, 0, 0, berlin), time.Time{}},
		{"22:00", "22:01", time.Date(2026, 3, 28, 22, 0, 59, 0, berlin), time.Date(2026, 3, 28, 22, 1, 0, 0, berlin)},
	} {
		from, _ := spec.ParseClock(c.from)
		to, _ := spec.ParseClock(c.to)
		if end := quietEnd(spec.Hours{From: from, To: to}, c.now); !end.Equal(c.end) {
			t.Errorf("%s-%s at %v ends at %v, want %v", c.from, c.to, c.now, end, c.end)
		}
	}
}

// An agent that comes and goes is told of some times an hour, and the last message says so.
func TestFlapping(t *testing.T) {
	p := newPerson(t)
	p.n.Digest = 0
	begun := p.now
	for i := range maxPerHour {
		p.needs = []Need{question(fmt.Sprintf("q-%d", i), "t/a")}
		m := p.decide().Message
		if says := strings.Contains(m.Text, "not told again before 13:01"); says != (i == maxPerHour-1) {
			t.Errorf("message %d: %s", i, m.Text)
		}
		p.wants(time.Minute, p.needs[0].Subject)
		p.needs = nil
		p.nothing(time.Minute, 0)
	}
	p.needs = []Need{question("q-99", "t/a"), question("q-100", "t/b")}
	p.wants(0, "q-100") // another agent
	first := begun.Add(time.Minute)
	p.nothing(0, first.Add(time.Hour).Sub(p.now))
	p.wants(first.Add(time.Hour).Sub(p.now), "q-99")
}

func TestRetry(t *testing.T) {
	p := newPerson(t)
	p.n.Digest = 0
	p.needs = []Need{question("q-1", "t/a"), question("q-2", "t/a")}
	id := ""
	for i, delay := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600} {
		d := p.decide()
		if d.Message == nil {
			t.Fatalf("nothing is tried after %d failures", i)
		}
		if id == "" {
			id = d.Message.ID
		}
		if d.Message.ID != id {
			t.Error("a message that is repeated has another id")
		}
		p.state = d.State.Failed("status 500", p.now)
		p.nothing(0, delay*time.Second)
		p.nothing(delay*time.Second-1, 1)
		p.now = p.now.Add(1)
	}
	p.needs = p.needs[1:] // it was answered meanwhile
	p.wants(0, "q-2")
	if p.state.Failures != 0 || p.state.LastError != "" || !p.state.LastSent.Equal(p.now) {
		t.Errorf("%+v", p.state)
	}
	p.state.RetryAt = p.now.Add(48 * time.Hour) // of a clock that was wrong
	p.needs = []Need{question("q-3", "t/a")}
	p.wants(0, "q-3")
}

// That the daemon was down is told once, whenever that is possible.
func TestWasDown(t *testing.T) {
	p := newPerson(t)
	p.state.WasDown = &Need{Subject: "daemon", State: "was_down", Text: "killed"}
	p.nothing(0, 10*time.Second)
	p.wants(10*time.Second, "daemon")
	p.nothing(time.Hour, 0)
	if p.state.WasDown != nil || len(p.state.Items) != 0 {
		t.Errorf("%+v", p.state)
	}
	p.n.On = []spec.NotifyKind{spec.NotifyInput}
	p.state.WasDown = &Need{Subject: "daemon", State: "was_down", Text: "killed"}
	p.nothing(0, 0)
	if p.state.WasDown != nil {
		t.Error("what nobody wants to be told is kept")
	}
}

func TestReportTime(t *testing.T) {
	p := newPerson(t)
	at := spec.Clock(7*60 + 30)
	p.n.Report = &at
	p.nothing(0, 19*time.Hour+30*time.Minute) // not for the day on which it is declared, at noon
	for day := range 3 {
		p.now = time.Date(2026, 11, 30+day, 7, 30, 0, 0, time.UTC)
		d := p.decide()
		since := p.now.Add(-24 * time.Hour)
		if !d.Report || !d.ReportSince.Equal(since) {
			t.Fatalf("day %d: %v, since %v", day, d.Report, d.ReportSince)
		}
		p.state = d.State.Sent(newReport(&p.n, "t", d.reportDate, p.now, "text"), p.now)
		p.nothing(time.Second, 24*time.Hour-time.Second)
	}
	// After a week without a daemon, it is sent when there is one again.
	p.now = time.Date(2026, 12, 20, 23, 0, 0, 0, time.UTC)
	if d := p.decide(); !d.Report || !d.ReportSince.Equal(p.now.Add(-maxReportSpan)) {
		t.Errorf("%+v", d)
	}
}

// A report that is due in an hour that is repeated is sent once.
func TestReportDaylightSaving(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		exectest.Missing(t, err)
	}
	p := newPerson(t)
	at := spec.Clock(2*60 + 30)
	p.n.Report = &at
	for _, day := range []time.Time{
		time.Date(2026, 10, 24, 12, 0, 0, 0, berlin), time.Date(2026, 3, 28, 12, 0, 0, 0, berlin),
	} {
		p.state, p.now = State{}, day
		times := 0
		for range 24 * 60 {
			p.now = p.now.Add(time.Minute)
			d := p.decide()
			if p.state = d.State; d.Report {
				times++
				p.state = p.state.Sent(newReport(&p.n, "t", d.reportDate, p.now, ""), p.now)
			}
		}
		if times != 1 {
			t.Errorf("%v: %d reports", day, times)
		}
	}
}

// Messages and states are bounded, whatever agents say.
func TestMessageBounds(t *testing.T) {
	p := newPerson(t)
	p.n.Digest = 0
	for i := range 3 * maxItems {
		n := question(fmt.Sprintf("q-%d", i), "t/a")
		n.Text = strings.Repeat("long\x1b[31m\nline ", 1000)
		p.needs = append(p.needs, n)
	}
	m := p.decide().Message
	if len(m.Needs) != MaxShown || m.More != maxItems-MaxShown || len(m.Text) > (MaxShown+1)*(maxLine+100) ||
		len(m.Title) > 120 || strings.Contains(m.Text, "\x1b") || !strings.Contains(m.Text, "- and 1,980 more") {
		t.Errorf("%d needs, %d more, %d bytes: %s", len(m.Needs), m.More, len(m.Text), m.Title)
	}
	p.after(0)
	if len(p.state.Items) != maxItems {
		t.Errorf("%d items", len(p.state.Items))
	}
}
