package cost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

// killed is a store whose daemon is killed at some write: it is done or not, and nothing is after it.
type killed struct {
	store.Store
	after int // writes until then; below 0: never
	done  bool
}

var errKilled = fmt.Errorf("the daemon is killed: %w", store.ErrClosed)

func (k *killed) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if k.after == 0 && k.done {
		k.done = false
		if _, err := k.Store.Apply(ctx, f, conds, ops); err != nil {
			return 0, err
		}
	}
	if k.after == 0 {
		return 0, errKilled
	}
	k.after--
	return k.Store.Apply(ctx, f, conds, ops)
}

func open(s store.Store) *Ledger {
	return New(Options{
		Store: s, Logger: slog.New(slog.DiscardHandler), Go: func(func(context.Context)) {},
		Owner: func(path string) (string, string) { return "pool", "claude" },
		Task:  func(string, uint64) (string, int) { return "", 0 },
	})
}

// modelSession is a session: its total as the command line knows it, and what is counted of it.
type modelSession struct{ total, counted int64 }

// count returns what a report of a session counts.
func (s *modelSession) count(reported int64, cumulative bool) int64 {
	switch {
	case !cumulative:
		s.counted += reported
	case reported < s.counted: // a reset
		s.counted = reported
	default:
		reported, s.counted = reported-s.counted, reported
	}
	return reported
}

// agentModel is an agent with its last run.
type agentModel struct {
	run     Run
	counted int64 // its calls that are counted
	spent   int64 // tokens of the chain, of the calls that are counted
	pending []pendingCall
}

// pendingCall is a call that is not counted. Nothing is known of one that the runner has dropped.
type pendingCall struct {
	known, cumulative bool
	session           *modelSession
	reported          int64
}

// Each call is counted once, whenever the daemon is killed, whatever the store does, and whenever the calls are read.
func TestModel(t *testing.T) {
	rapid.Check(t, model)
}

func model(t *rapid.T) {
	inner := memory.New()
	defer inner.Close()
	faults := storetest.NewFaults(inner, rapid.Uint64().Draw(t, "seed"), storetest.Rates{Unknown: 0.2, Conflict: 0.2})
	l := open(faults)
	ctx := context.Background()
	t0, runs := time.Now(), 0
	callNow := func(id string, cumulative bool, used agentcli.Models) agentcli.Record {
		r := call(id, cumulative, used)
		r.Ended = time.Now()
		return r
	}
	agents := map[string]*agentModel{"t/a": {}, "t/a/b": {}}
	sessions := map[string]*modelSession{"s1": {}, "s2": {}, "": {}}
	var sum part // all that is counted
	path := rapid.SampledFrom([]string{"t/a", "t/a/b"})
	settled := func(a *agentModel, calls int64) {
		n := calls - a.counted
		for _, c := range a.pending[:n] {
			if !c.known {
				sum = sum.plus(part{Counts: Counts{Calls: 1, UnknownTokens: 1, UnknownDollars: 1}})
				continue
			}
			used := c.session.count(c.reported, c.cumulative)
			sum, a.spent = sum.plus(part{Counts: Counts{Calls: 1, UnknownDollars: 1}, Usage: tokens(used)}), a.spent+used
		}
		a.counted, a.pending = calls, a.pending[n:]
	}
	// interrupted takes note of what was counted before an error.
	interrupted := func(path string) {
		a := agents[path]
		m := read[mark](ctx, open(inner), new(write), runKey(path))
		if n := m.counted(a.run.ID); n > a.counted {
			settled(a, n)
		}
	}
	begin := func(path string, chain time.Time) {
		a := agents[path]
		runs++
		if !a.run.Chain.Equal(chain) {
			a.spent = 0
		}
		a.run = Run{Agent: path, ID: fmt.Sprint("run ", runs), Chain: chain, Task: "task-1", Attempt: 1 + runs%3}
		a.counted = 0
	}
	count := func(t *rapid.T, path string) {
		if err := l.Count(ctx, agents[path].run); err != nil {
			t.Fatal(err)
		}
		settled(agents[path], agents[path].run.calls())
	}
	begin("t/a", t0)
	begin("t/a/b", t0)
	t.Repeat(map[string]func(*rapid.T){
		"call": func(t *rapid.T) {
			a := agents[path.Draw(t, "path")]
			id := rapid.SampledFrom([]string{"s1", "s2", ""}).Draw(t, "session")
			s := sessions[id]
			used := rapid.Int64Range(1, 100).Draw(t, "tokens")
			for _, other := range agents { // which may count its calls first, and a session is used by one at a time
				if other != a && len(other.pending) > 0 && id != "" {
					t.Skip("the session may be in use")
				}
			}
			c := pendingCall{true, false, s, used}
			var r agentcli.Record
			switch kind := rapid.SampledFrom([]string{"cumulative", "delta", "unknown", "clear"}).Draw(t, "kind"); {
			case kind == "unknown":
				c.known, r = false, unknown()
				r.Ended = time.Now()
			case kind == "delta" || id == "":
				s.total += used
				r = callNow(id, false, agentcli.Models{"m": tokens(used)})
			default:
				if s.total += used; kind == "clear" {
					s.total = used
				}
				c.cumulative, c.reported = true, s.total
				r = callNow(id, true, agentcli.Models{"m": tokens(s.total)})
			}
			a.run.Calls = append(a.run.Calls, r)
			a.pending = append(a.pending, c)
		},
		"drop": func(t *rapid.T) { // the runner keeps the last calls only
			a := agents[path.Draw(t, "path")]
			if len(a.run.Calls) == 0 {
				t.Skip("no calls")
			}
			a.run.Calls = a.run.Calls[1:]
			a.run.Dropped++
			if n := len(a.run.Calls); len(a.pending) > n { // nothing is known of what was not counted in time
				a.pending[len(a.pending)-n-1].known = false
			}
		},
		"count": func(t *rapid.T) { count(t, path.Draw(t, "path")) },
		"run": func(t *rapid.T) {
			path := path.Draw(t, "path")
			count(t, path)
			chain := agents[path].run.Chain
			if rapid.Bool().Draw(t, "another chain") {
				chain = chain.Add(time.Second)
			}
			begin(path, chain)
		},
		"kill": func(t *rapid.T) {
			path := path.Draw(t, "path")
			k := &killed{faults, rapid.IntRange(0, 3).Draw(t, "after"), rapid.Bool().Draw(t, "done")}
			if err := open(k).Count(ctx, agents[path].run); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			interrupted(path)
			l = open(faults)
		},
		"full": func(t *rapid.T) {
			path := path.Draw(t, "path")
			faults.Fail(store.ErrFull)
			err := l.Count(ctx, agents[path].run)
			faults.Fail(nil)
			if (err == nil) != (len(agents[path].pending) == 0) {
				t.Fatalf("%v with %d calls to count", err, len(agents[path].pending))
			}
		},
		"prune": func(t *rapid.T) {
			for l.prune(ctx, time.Now()) != nil {
			}
		},
		"": func(t *rapid.T) {
			for _, a := range agents {
				if len(a.pending) > 0 {
					return
				}
			}
			for _, by := range Groups() {
				r, err := l.Report(ctx, by, "", "", time.Now())
				if err != nil {
					t.Fatal(err)
				}
				got := Counts{Calls: r.Total.Calls, UnknownTokens: r.Total.UnknownTokens, UnknownDollars: r.Total.UnknownDollars}
				if got != sum.Counts || r.Total.Tokens != nil && *r.Total.Tokens != sum.Usage.Tokens() {
					t.Fatalf("by %s: %+v, %v tokens, expected %+v", by, got, r.Total.Tokens, sum)
				}
			}
			attempts, err := l.OfAttempts(ctx, "task-1")
			var ofTask Sum
			for _, s := range attempts {
				ofTask = ofTask.Plus(s)
			}
			if err != nil || ofTask.Calls != sum.Calls || ofTask.Tokens != sum.Usage.Tokens() {
				t.Fatalf("attempts: %+v, %v, expected %+v", attempts, err, sum)
			}
			for path, a := range agents {
				if spent, _, err := l.Chain(ctx, path, a.run.Chain); err != nil || spent != a.spent {
					t.Fatalf("%s: %d tokens of the chain, %v; expected %d", path, spent, err, a.spent)
				}
			}
		},
	})
}

// Old days, sessions and marks go; what is kept stays.
func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		l, ctx := open(s), t.Context()
		at := func(age time.Duration, id string) {
			r := call(id, false, agentcli.Models{"m": tokens(1)})
			r.Ended = time.Now().Add(-age)
			if err := l.Count(ctx, Run{Agent: "t/a", ID: id, Calls: []agentcli.Record{r}}); err != nil {
				t.Fatal(err)
			}
		}
		const year = 24 * time.Hour * 365
		total := func(want int64) {
			t.Helper()
			r, err := l.Report(ctx, "", "", "", time.Now())
			if err != nil || r.Total.Calls != want {
				t.Errorf("%+v, %v; expected %d calls", r, err, want)
			}
		}
		at(0, "s1")
		at(year, "s2")
		at(2*year, "too old")
		total(2)
		for i := range 20 {
			at(0, fmt.Sprint("more", i))
		}
		records := func(prefix string) int {
			all, _, err := s.Snapshot(ctx, prefix)
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		time.Sleep(totalTime + time.Hour)
		at(0, "new")
		if err := l.prune(ctx, time.Now()); err != nil || records(sessionPrefix) != 1 || records(runPrefix) != 1 {
			t.Errorf("%v: %d sessions, %d marks", err, records(sessionPrefix), records(runPrefix))
		}
		total(22)
		_, all, err := l.Chain(ctx, "t/a", time.Time{})
		if err != nil || len(all) != 1 || all[0].ID != "new" || all[0].Usage.Total() != tokens(1) {
			t.Errorf("%+v, %v", all, err)
		}
		time.Sleep(2 * year)
		if err := l.prune(ctx, time.Now()); err != nil || records("cost") != 0 {
			t.Errorf("%v: %d records", err, records("cost"))
		}
	})
}

// Too many sessions are removed soon, the oldest first.
func TestManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		l := open(s)
		ctx, cancel := context.WithCancel(t.Context())
		go l.Run(ctx)
		synctest.Wait()
		for i := range mostTotals + 1 {
			w := write{}
			id := session{agentcli.Claude, fmt.Sprint(i)}
			w.put(id.key(), total{id, time.Now().Add(time.Duration(i)), nil})
			if _, err := s.Apply(ctx, store.Fence{}, nil, w.ops); err != nil {
				t.Fatal(err)
			}
		}
		l.sessions.Store(mostTotals)
		one := call("new", false, agentcli.Models{"m": tokens(1)})
		if err := l.Count(ctx, Run{Agent: "t/a", ID: "r", Calls: []agentcli.Record{one}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		all, _, err := s.Snapshot(ctx, sessionPrefix)
		if err != nil || len(all) != mostTotals {
			t.Errorf("%d sessions, %v", len(all), err)
		}
		cancel()
		synctest.Wait()
	})
}
