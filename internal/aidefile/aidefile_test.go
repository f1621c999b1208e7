package aidefile

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/supervisor"
)

func TestPolicies(t *testing.T) {
	if p := Default().Policy; p.Restart != supervisor.Temporary {
		t.Errorf("without [daemon] the policy is %v", p)
	}
	if p := Kept(); p != (Policy{supervisor.Transient, 10, supervisor.Exponential}) {
		t.Errorf("an empty [daemon] is %v", p)
	}
	clean, failed := supervisor.Exit{Kind: supervisor.Normal}, supervisor.Exit{Kind: supervisor.Failure}
	for _, c := range []struct {
		restart                    supervisor.Restart
		word                       string
		afterSuccess, afterFailure bool
	}{
		{supervisor.Permanent, "always", true, true},
		{supervisor.Transient, "on-failure", false, true},
		{supervisor.Temporary, "never", false, false},
	} {
		p := Policy{Restart: c.restart, MaxRestarts: 3}
		for kind, follows := range map[supervisor.ExitKind]bool{
			supervisor.Panicked: c.afterFailure, supervisor.Killed: c.afterFailure, supervisor.Lost: c.afterFailure, supervisor.Abandoned: c.afterFailure, supervisor.ShutDown: c.afterSuccess,
		} {
			if p.Follows(supervisor.Exit{Kind: kind}) != follows {
				t.Errorf("%s: another run after %v: %v", c.word, kind, !follows)
			}
		}
		if p.Follows(clean) != c.afterSuccess || p.Follows(failed) != c.afterFailure || c.restart.String() != c.word {
			t.Errorf("%s: another run after a success %v, after a failure %v", c.restart, p.Follows(clean), p.Follows(failed))
		}
	}
}

// The exit code of every result except success is a failure.
func TestResultsAsExitCodes(t *testing.T) {
	seen := map[int]Result{}
	for r, status := range map[Result]string{Succeeded: "success", Failed: "partial", TimedOut: "timeout", BudgetExhausted: "partial", Faulty: "partial", Spent: "partial"} {
		if (r.Code() == 0) != (r == Succeeded) || r.Status() != status || r.String() == "" {
			t.Errorf("%v: exit code %d, status %s", r, r.Code(), r.Status())
		}
		if other, ok := seen[r.Code()]; ok {
			t.Errorf("%v and %v have one exit code", r, other)
		}
		seen[r.Code()] = r
	}
}

func TestSleeps(t *testing.T) {
	for _, c := range []struct {
		kind     supervisor.BackoffKind
		attempts []int
		seconds  []float64
	}{
		{supervisor.Exponential, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 63, 64, 1e9, math.MaxInt32, math.MaxInt}, []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300, 300, 300, 300, 300}},
		{supervisor.Linear, []int{0, 1, 2, 3, 4, 63, 64, 298, 299, 300, 1e9, math.MaxInt32, math.MaxInt}, []float64{1, 2, 3, 4, 5, 64, 65, 299, 300, 300, 300, 300, 300}},
		{supervisor.Fixed, []int{0, 1, 2, 63, math.MaxInt}, []float64{1, 1, 1, 1, 1}},
	} {
		_, b, _ := Policy{Backoff: c.kind, Restart: supervisor.Transient}.Child(0)
		for i, n := range c.attempts {
			if got := b.Delay(n).Seconds(); got != c.seconds[i] {
				t.Errorf("%v, attempt %d: %v s, expected %v", c.kind, n, got, c.seconds[i])
			}
		}
	}
}

func TestTokens(t *testing.T) {
	for text, expected := range map[string]int64{
		"100k": 100_000, "1m": 1_000_000, "500000": 500_000, "0k": 0, "0": 0, " 200K ": 200_000, "2M": 2_000_000,
		"1.5m": 1_500_000, "0.5k": 500, "9223372036854775807": math.MaxInt64,
	} {
		if n, err := ParseTokens(text); n != expected || err != nil {
			t.Errorf("%q is %d, %v, expected %d", text, n, err, expected)
		}
	}
	for _, text := range []string{
		"", "abc", "k", "-1", "+1", "1e3", "1 k", "1kk", "1g", "1.5", ".5k", "1.k", "1.2345k", "99999999999999999999k", "18446744073709551615k", "9223372036854775.808k", "٣k",
	} {
		if n, err := ParseTokens(text); err == nil {
			t.Errorf("%q is %d, expected an error", text, n)
		}
	}
}

// A Meter counts tokens and calls, and ends with either.
func TestBudget(t *testing.T) {
	m := Meter{Budget: Budget{Tokens: 100_000, MaxRetries: 3}}
	for _, n := range []int64{30_000, 70_000} {
		if err := m.Call(); err != nil {
			t.Fatal(err)
		}
		m.Record(n, true)
	}
	if err := m.Call(); err == nil || !strings.Contains(err.Error(), "100000 of 100000 tokens") {
		t.Errorf("a third call: %v", err)
	}
	m = Meter{Budget: Budget{Tokens: 1, MaxRetries: 2}}
	for range 3 {
		if err := m.Call(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Call(); err == nil || !strings.Contains(err.Error(), "all 3 tries") {
		t.Errorf("the fourth call with two retries: %v", err)
	}
	m = Meter{Budget: Budget{Tokens: 0, MaxRetries: 3}}
	if err := m.Call(); err == nil || m.Calls() != 0 {
		t.Errorf("a budget of no tokens allows a call: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{Tokens: rapid.Int64Min(0).Draw(t, "tokens"), MaxRetries: rapid.IntRange(0, 20).Draw(t, "retries")}
		m := Meter{Budget: b}
		for range rapid.IntRange(0, 30).Draw(t, "calls") {
			left := m.Left()
			if err := m.Call(); (err == nil) != (left > 0 && m.Calls() <= b.MaxRetries+1 && err == nil) {
				t.Fatalf("a call with %d tokens left: %v", left, err)
			}
			m.Record(rapid.Int64().Draw(t, "used"), rapid.Bool().Draw(t, "known"))
			if m.Used() < 0 || m.Used() <= b.Tokens && m.Used()+m.Left() != b.Tokens || m.Used() > b.Tokens && m.Left() != 0 {
				t.Fatalf("%d used and %d left of %d", m.Used(), m.Left(), b.Tokens)
			}
		}
		if m.Calls() > b.MaxRetries+1 {
			t.Fatalf("%d calls with %d retries", m.Calls(), b.MaxRetries)
		}
		m.Record(b.Tokens, true)
		if m.Call() == nil {
			t.Fatal("a call after all tokens were used")
		}
	})
}

// Within limits a run to the tokens that its chain has left.
func TestBudgetOfAChain(t *testing.T) {
	for _, c := range []struct {
		chain, spent, tokens int64
		exhausted            bool
	}{
		{0, math.MaxInt64, 100, false}, {1000, 0, 100, false}, {1000, 900, 100, false}, {1000, 950, 50, false},
		{1000, 1000, 100, true}, {1000, 2000, 100, true}, {50, 0, 50, false}, {1000, -5, 100, false}, {math.MaxInt64, math.MaxInt64 - 1, 1, false},
	} {
		b, err := Budget{Tokens: 100, Chain: c.chain, MaxRetries: 2}.Within(c.spent)
		if b.Tokens != c.tokens || b.MaxRetries != 2 || (err != nil) != c.exhausted {
			t.Errorf("%d of %d: %d tokens, %v, expected %d", c.spent, c.chain, b.Tokens, err, c.tokens)
		}
	}
}

func TestSummary(t *testing.T) {
	m := &Meter{Budget: Budget{Tokens: 100, MaxRetries: 3}}
	m.Call()
	m.Record(40, true)
	out := "first <aide-summary>old</aide-summary> then <aide-summary>\nnew\n</aide-summary> bye"
	if got, expected := Summary(Succeeded, "", m, out, 500), "STATUS: success\nTOKENS: 40/100\nRETRIES: 0\n\nnew"; got != expected {
		t.Errorf("%q, expected %q", got, expected)
	}
	some := *m
	some.Record(1, false)
	if got := Summary(Failed, "", &some, "", 500); !strings.Contains(got, "\nTOKENS: at least 40/100\n") ||
		some.LeftText() != "at most 60" {
		t.Errorf("%q, %s left", got, some.LeftText())
	}
	none := &Meter{Budget: m.Budget}
	if none.Record(1, false); !strings.Contains(Summary(Failed, "", none, "", 500), "\nTOKENS: unknown/100\n") || none.Used() > 0 {
		t.Errorf("%s, %d", none.UsedText(), none.Used())
	}
	got := Summary(TimedOut, "it took\nlonger than 5s", m, strings.Repeat("ä", 1000), 500)
	if !strings.HasPrefix(got, "STATUS: timeout\n") || !strings.Contains(got, "REASON: it took longer than 5s\n") || strings.Count(got, "ä") != 200 || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
	for tokens := range int64(60) {
		if got := Summary(Failed, "x", m, strings.Repeat("äöü", 100), tokens); int64(len(got)) > 4*tokens || !utf8.ValidString(got) {
			t.Errorf("%d tokens: %d bytes, %q", tokens, len(got), got)
		}
	}
	if got := Summary(Failed, "", m, "</aide-summary> <aide-summary>", 500); !strings.HasPrefix(got, "STATUS: partial\n") {
		t.Errorf("%q", got)
	}
	if got := Summary(Succeeded, "", m, strings.Repeat("a", 3000)+"<aide-summary>"+strings.Repeat("b", 3000)+"</aide-summary>", 500); len(got) > 2000 || !strings.HasSuffix(got, cutMark) {
		t.Errorf("a long summary has %d bytes and ends with %q", len(got), got[len(got)-10:])
	}
}

func TestDecide(t *testing.T) {
	cron := []Trigger{{Kind: Cron, Schedule: minutes(5)}}
	manual := []Trigger{{Kind: Manual}}
	for _, c := range []struct {
		state    supervisor.State
		ran      bool
		triggers []Trigger
		expected State
		decision Decision
	}{
		{supervisor.Stopped, false, manual, Idle, Decision{Run: true}},
		{supervisor.Stopped, true, manual, Done, Decision{Run: true}},
		{supervisor.Stopped, true, cron, Idle, Decision{Run: true}},
		{supervisor.Starting, true, cron, Running, Decision{}},
		{supervisor.Running, true, cron, Running, Decision{}},
		{supervisor.Stopping, true, cron, Running, Decision{}},
		{supervisor.Restarting, true, cron, backingOff, Decision{}},
		{supervisor.GivenUp, true, cron, GivenUp, Decision{Run: true}},
		{supervisor.Suspended, true, cron, Stopped, Decision{}},
		{supervisor.Waiting, false, cron, Held, Decision{}},
		{supervisor.Paused, false, cron, Held, Decision{}},
		{supervisor.Quarantined, false, cron, Held, Decision{}},
	} {
		s := StateOf(c.state, c.ran, c.triggers)
		d := Decide(s)
		if s != c.expected || d.Run != c.decision.Run || d.Reason == "" {
			t.Errorf("%v, ran %v: %v, %+v, expected %v, %+v", c.state, c.ran, s, d, c.expected, c.decision)
		}
	}
}

func TestQueue(t *testing.T) {
	a, b := Ticket{7, "seven", "text"}, Ticket{3, "three", ""}
	var q Queue
	take := func(open ...Ticket) int {
		n, ok := q.Next(open, true)
		if !ok {
			return 0
		}
		q.Take(n.Number, n.Task())
		return n.Number
	}
	changed := Ticket{3, "three", "please do it like this"}
	for i, c := range []struct {
		open     []Ticket
		expected int
	}{
		{[]Ticket{a, b}, 3}, {[]Ticket{a, b}, 7}, {[]Ticket{a, b}, 0}, // each once, the oldest first
		{[]Ticket{a, changed}, 3}, {[]Ticket{a, changed}, 0}, // again once it was changed
		{[]Ticket{a}, 0}, {[]Ticket{a, changed}, 3}, // again once it was gone
		{nil, 0},
	} {
		if got := take(c.open...); got != c.expected {
			t.Errorf("%d: issue %d, expected %d", i, got, c.expected)
		}
	}
	take(a)
	if n := q.Reset(); n != 1 || take(a) != 7 {
		t.Errorf("a reset forgets %d", n)
	}
}

// An issue is taken, ended or freed by its run, also for the next daemon.
func TestQueueRemembers(t *testing.T) {
	open := []Ticket{{Number: 1, Title: "one"}, {Number: 2, Title: "two"}, {Number: 3, Title: "three"}}
	next := func(q *Queue, open []Ticket, whole bool) int {
		t, _ := q.Next(open, whole)
		return t.Number
	}
	for _, c := range []struct {
		name     string
		do       func(*Queue)
		expected int
	}{
		{"a run is in progress", func(q *Queue) {}, 2},
		{"it has ended", func(q *Queue) { q.End(1) }, 2},
		{"it was stopped", func(q *Queue) { q.Free(1) }, 1},
		{"it was stopped when all was over", func(q *Queue) { q.End(1); q.Free(1) }, 2},
		{"the daemon is another", func(q *Queue) { q.FreeAll(0) }, 1},
		{"the daemon is another, and the run goes on", func(q *Queue) { q.FreeAll(1) }, 2},
		{"the daemon is another, and it had ended", func(q *Queue) { q.End(1); q.FreeAll(0) }, 2},
		{"it is of an issue that was not taken", func(q *Queue) { q.End(9); q.Free(9); q.FreeAll(1) }, 2},
	} {
		var q, kept Queue
		q.Take(1, open[0].Task())
		c.do(&q)
		text, err := json.Marshal(&q)
		if err == nil {
			err = json.Unmarshal(text, &kept)
		}
		if n, after := next(&q, open, true), next(&kept, open, true); err != nil || n != c.expected || after != c.expected {
			t.Errorf("%s: %d is next, and %d when it was kept, expected %d; %v", c.name, n, after, c.expected, err)
		}
	}
	var q Queue
	q.Take(1, open[0].Task())
	if n := next(&q, open[1:], false); n != 2 {
		t.Errorf("%d is next", n)
	}
	if n := next(&q, open, true); n != 2 {
		t.Errorf("an issue that was not among some of them is forgotten: %d is next", n)
	}
	for _, bad := range []string{"", "[]", `{"x":{}}`, `{"1":7}`} {
		if json.Unmarshal([]byte(bad), new(Queue)) == nil {
			t.Errorf("%q can be read", bad)
		}
	}
	if err := json.Unmarshal([]byte(`{"1":null,"2":{}}`), &q); err != nil || next(&q, open, true) != 1 {
		t.Errorf("%v", err)
	}
	if open[0].Number != 1 {
		t.Error("the list was changed")
	}
}

// minutes is a Schedule with an interval in minutes.
type minutes int

func (m minutes) step() time.Duration            { return time.Duration(m) * time.Minute }
func (m minutes) Next(after time.Time) time.Time { return after.Truncate(m.step()).Add(m.step()) }
func (m minutes) String() string                 { return m.step().String() }

func TestClock(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	for _, c := range []struct {
		name     string
		begin    time.Duration
		ticks    []time.Duration
		expected [][]Due // of each tick
	}{
		{"in time", 0, []time.Duration{4 * time.Minute, 5 * time.Minute, 5*time.Minute + 1, 10*time.Minute + time.Second}, [][]Due{nil, {{At: at(5 * time.Minute)}}, nil, {{At: at(10 * time.Minute)}}}},
		{"not for the time at which it began", 0, []time.Duration{0, time.Second}, [][]Due{nil, nil}},
		{"the machine slept, and woke in time", 0, []time.Duration{60*time.Minute + 30*time.Second, 65 * time.Minute}, [][]Due{{{At: at(time.Hour), Missed: 11}}, {{At: at(65 * time.Minute)}}}},
		{"the machine slept, and woke too late", 0, []time.Duration{63 * time.Minute}, [][]Due{{{At: at(time.Hour), Missed: 11, Late: true}}}},
		{"late by the grace", 0, []time.Duration{6 * time.Minute}, [][]Due{{{At: at(5 * time.Minute)}}}},
		{"late by more", 0, []time.Duration{6*time.Minute + 1}, [][]Due{{{At: at(5 * time.Minute), Late: true}}}},
		{"set back a little", 0, []time.Duration{5 * time.Minute, 4 * time.Minute, 5 * time.Minute, 10 * time.Minute}, [][]Due{{{At: at(5 * time.Minute)}}, nil, nil, {{At: at(10 * time.Minute)}}}},
		{"set back by hours", 0, []time.Duration{5 * time.Minute, -3 * time.Hour, -3*time.Hour + 5*time.Minute}, [][]Due{{{At: at(5 * time.Minute)}}, nil, {{At: at(-3*time.Hour + 5*time.Minute)}}}},
		{"set forward by a century", 0, []time.Duration{100 * 365 * 24 * time.Hour}, [][]Due{{{At: at(100 * 365 * 24 * time.Hour), Missed: maxMissed}}}},
	} {
		k := NewClock(at(c.begin), []Schedule{minutes(5)})
		for i, d := range c.ticks {
			got := k.Tick(at(d))
			if len(got) != len(c.expected[i]) || len(got) == 1 && got[0] != c.expected[i][0] {
				t.Errorf("%s: tick %d: %+v, expected %+v", c.name, i, got, c.expected[i])
			}
			if next := k.Next(); !next.After(at(d)) {
				t.Errorf("%s: tick %d: next is %v, which is over", c.name, i, next)
			}
		}
	}
	if !NewClock(noon, nil).Next().IsZero() {
		t.Error("a clock without schedules is due")
	}
}

// For any changes of the wall clock, a time that is due has just come, and none is due twice.
func TestClockHoldsForAllTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		k := NewClock(now, []Schedule{minutes(1), minutes(7)})
		last := map[int]time.Time{}
		latest := now
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(20*time.Minute), int64(30*time.Minute)).Draw(t, "step")))
			if earliest := latest.Add(-59 * time.Minute); now.Before(earliest) {
				now = earliest
			} else if now.After(latest) {
				latest = now
			}
			for _, d := range k.Tick(now) {
				if d.At.After(now) || d.Late != (now.Sub(d.At) > Grace) {
					t.Fatalf("at %v: %+v", now, d)
				}
				if !d.At.After(last[d.Index]) {
					t.Fatalf("at %v: %+v is due twice", now, d)
				}
				last[d.Index] = d.At
			}
		}
	})
}
