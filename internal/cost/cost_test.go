package cost

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// t0 is when the tests begin.
var t0 = time.Date(2026, 11, 23, 1, 0, 0, 0, time.Local)

// call returns the record of a call that has used so much of each model.
func call(session string, cumulative bool, used agentcli.Models) agentcli.Record {
	n := used.Total().Tokens()
	return agentcli.Record{
		CLI: agentcli.Claude, Session: session, Model: "opus", Tokens: &n, Usage: used, Cumulative: cumulative,
		Ended: t0,
	}
}

// unknown returns the record of a call of which nothing is known.
func unknown() agentcli.Record {
	return agentcli.Record{CLI: agentcli.Copilot, Model: "gpt", Ended: t0}
}

func tokens(n int64) agentcli.Usage { return agentcli.Usage{Output: n} }

// Unknown is unknown, and a call of several models counts once, and once for each of them.
func TestAmount(t *testing.T) {
	t.Parallel()
	none := int64(0)
	one := Counts{Calls: 1, UnknownTurns: 1}
	noDollars, nothing := one, one
	noDollars.UnknownDollars = 1
	nothing.UnknownTokens, nothing.UnknownDollars = 1, 1
	priced := agentcli.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Dollars: 0.5}
	opus := func(n int64) agentcli.Models { return agentcli.Models{"opus": tokens(n)} }
	of := func(c Counts, model string, u agentcli.Usage) amount {
		return amount{c, map[string]part{model: {c, u}}}
	}
	both := agentcli.Models{"opus": priced, "haiku": tokens(5)}
	for name, c := range map[string]struct {
		call     agentcli.Record
		last     agentcli.Models
		want     amount
		total    agentcli.Models
		expected int64 // tokens
	}{
		"unknown": {unknown(), nil, of(nothing, "gpt", agentcli.Usage{}), nil, 0},
		"with dollars": {
			call("", false, agentcli.Models{"opus": priced}), nil,
			of(one, "opus", priced), agentcli.Models{"opus": priced}, 8,
		},
		"without": {call("", false, opus(5)), nil, of(noDollars, "opus", tokens(5)), opus(5), 5},
		"two models": {
			call("", false, both), nil,
			amount{one, map[string]part{"opus": {one, priced}, "haiku": {noDollars, tokens(5)}}}, both, 13,
		},
		"known to be none": {
			agentcli.Record{Tokens: &none, Model: "opus"}, nil, of(one, "opus", agentcli.Usage{}), nil, 0,
		},
		"new cumulative":     {call("s", true, opus(7)), nil, of(noDollars, "opus", tokens(7)), opus(7), 7},
		"the next":           {call("s", true, opus(9)), opus(7), of(noDollars, "opus", tokens(2)), opus(9), 2},
		"nothing more":       {call("s", true, opus(9)), opus(9), of(noDollars, "opus", agentcli.Usage{}), opus(9), 0},
		"a reset":            {call("s", true, opus(3)), opus(9), of(noDollars, "opus", tokens(3)), opus(3), 3},
		"not cumulative":     {call("s", false, opus(3)), opus(9), of(noDollars, "opus", tokens(3)), opus(12), 3},
		"unknown in a known": {unknown(), opus(9), of(nothing, "gpt", agentcli.Usage{}), opus(9), 0},
	} {
		a, total := Entry{Record: c.call}.amount(c.last)
		used := a.used().Usage.Tokens()
		if !reflect.DeepEqual(a, c.want) || !reflect.DeepEqual(total, c.total) || used != c.expected {
			t.Errorf("%s: %+v, total %v, %d tokens", name, a, total, used)
		}
	}
	if a := dropped(3); a.used() != (part{Counts: Counts{Calls: 3, UnknownTokens: 3, UnknownDollars: 3, UnknownTurns: 3}}) {
		t.Errorf("%+v", a)
	}
}

// A day with too many tasks or models stays bounded, and counts all of them.
func TestFullDay(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]func(i int) (Entry, amount){
		"tasks": func(i int) (Entry, amount) {
			return Entry{Account: "claude", Task: fmt.Sprint("task-", i)}, dropped(1)
		},
		"models": func(i int) (Entry, amount) {
			a, _ := Entry{Record: call("", false, agentcli.Models{fmt.Sprint("m", i): tokens(1)})}.amount(nil)
			return Entry{Account: "claude"}, a
		},
		"accounts": func(i int) (Entry, amount) {
			return Entry{Account: strings.Repeat("x", 1000) + fmt.Sprint(i)}, dropped(1)
		},
	} {
		d := day{Agent: "t/a"}
		const calls = 1500
		for i := range calls {
			d = d.add(entry(i))
		}
		text, err := json.Marshal(d)
		if err != nil || len(text) > maxDay {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		sum, others := part{}, false
		for _, r := range d.Rows {
			sum, others = sum.plus(r.used()), others || r.Task == Other
		}
		if sum.Calls != calls || !others {
			t.Errorf("%s: %+v, others: %v", name, sum, others)
		}
	}
}

// What a command line reports cannot break the ledger.
func TestHostileRecord(t *testing.T) {
	t.Parallel()
	e := Run{Agent: "t/a", Task: "a\nb"}.entry(call("s", false, agentcli.Models{
		strings.Repeat("long", 1000): {Output: math.MaxInt64, Dollars: math.MaxFloat64},
		"a\x1b[31mb\n":               {Input: -5, Dollars: -1},
	}), t0)
	if e.Task != "a b" || e.At != t0 {
		t.Errorf("%+v", e)
	}
	d := day{}
	for range 3 {
		a, _ := e.amount(nil)
		d = d.add(e, a)
	}
	text, err := json.Marshal(d)
	if err != nil || len(text) > 2000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if u := d.Rows[0].used(); u.Usage.Tokens() != math.MaxInt64 || u.Usage.Dollars < 0 {
		t.Errorf("%+v", u)
	}
	twelve := int64(12)
	if u := clean(agentcli.Record{Tokens: &twelve, Model: "m"}).Usage; u["m"] != (agentcli.Usage{Input: 12}) {
		t.Errorf("only the sum is known: %v", u)
	}
	if e = (Run{}).entry(agentcli.Record{Ended: t0.Add(time.Hour)}, t0); e.At != t0 {
		t.Errorf("a time to come: %v", e.At)
	}
}

// The chain begins again when its start changes, and the last sessions are known.
func TestMark(t *testing.T) {
	t.Parallel()
	m, r := mark{}, Run{Agent: "t/a", ID: "r1", Chain: t0}
	ten, _ := Entry{Record: call("", false, agentcli.Models{"m": tokens(10)})}.amount(nil)
	for i := range 20 {
		m = m.next(r, int64(i+1), ten, session{agentcli.Claude, fmt.Sprint(i)}, t0)
	}
	m = m.next(r, 21, ten, session{agentcli.Claude, "15"}, t0)
	ids := ""
	for _, s := range m.Sessions {
		ids += s.ID + " "
	}
	if m.Spent != 210 || m.counted("r1") != 21 || m.counted("r2") != 0 || ids != "15 19 18 17 16 14 13 12 " {
		t.Errorf("%+v", m)
	}
	r.ID = "r2"
	if m = m.next(r, 1, dropped(4), session{}, t0); m.Spent != 210 || m.Counted != 1 || len(m.Sessions) != maxSessions {
		t.Errorf("another run: %+v", m)
	}
	r.ID, r.Chain = "r3", t0.Add(1)
	if m = m.next(r, 1, ten, session{}, t0); m.Spent != 10 {
		t.Errorf("another chain: %+v", m)
	}
}
