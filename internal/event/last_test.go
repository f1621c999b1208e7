package event

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// TestLast compares what is found from the end with what is read from the
// start, in logs of any length, with gaps in their numbers and a pruned start.
func TestLast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := memory.New()
		defer s.Close()
		l := openLog(t, Config{Store: s})
		n := rapid.IntRange(0, 3*readStep).Draw(rt, "events")
		for i := range n {
			l.Append(Event{Type: AgentStarted, Path: fmt.Sprintf("app/%d", i%3), Message: fmt.Sprint(i)})
		}
		flush(t, l)
		if n > 0 {
			// Numbers that are never used, as a store may have them, and a start that is gone.
			for _, from := range rapid.SliceOfN(rapid.IntRange(1, n), 0, 3).Draw(rt, "gaps") {
				remove(t, s, l, from, min(from+rapid.IntRange(0, 2*readStep).Draw(rt, "gap"), n))
			}
			if pruned := rapid.IntRange(0, n).Draw(rt, "pruned"); pruned > 0 {
				remove(t, s, l, 1, pruned)
				put(t, s, l.prunedKey(), fmt.Sprint(pruned))
			}
		}
		want := []Event{}
		for _, e := range read(t, l, 0, Filter{Path: "app/1"}) {
			if e.Path == "app/1" {
				want = append(want, e)
			}
		}
		ask := rapid.IntRange(0, n+2).Draw(rt, "ask")
		want = want[max(0, len(want)-ask):]
		got, end, err := l.Last(t.Context(), ask, func(e Event) bool { return e.Path == "app/1" })
		if err != nil {
			rt.Fatal(err)
		}
		if got, _, err := l.Last(t.Context(), 1, func(Event) bool { return true }); err != nil || len(got) > 0 && got[0].Seq != end {
			rt.Fatalf("the end is said to be %d: %v, %v", end, got, err)
		}
		if lines(got) != lines(want) {
			rt.Fatalf("the last %d:\n%s\nwant:\n%s", ask, lines(got), lines(want))
		}
	})
}

func remove(t testing.TB, s store.Store, l *Log, from, until int) {
	t.Helper()
	for i := from; i <= until; i++ {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Delete, Key: store.SequenceKey(l.prefix, uint64(i))}}); err != nil {
			t.Fatal(err)
		}
	}
}

func put(t testing.TB, s store.Store, key, value string) {
	t.Helper()
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: key, Value: []byte(value)}}); err != nil {
		t.Fatal(err)
	}
}

// counting counts the records that are read.
type counting struct {
	store.Store
	records int
}

func (c *counting) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	r, rev, err := c.Store.Scan(ctx, prefix, after, limit)
	c.records += len(r)
	return r, rev, err
}

// TestLastReadsTheEnd: what is read of a long log does not grow with it, also
// where large events make the pages of the store short.
func TestLastReadsTheEnd(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := &counting{Store: db}
	l := openLog(t, Config{Store: c})
	for i := range 5000 {
		e := Event{Type: AgentStarted, Path: "app/a", Message: fmt.Sprint(i)}
		if i > 4900 {
			e = e.With(strings.Repeat("x", 64<<10))
		}
		l.Append(e)
		if i%50 == 0 {
			flush(t, l)
		}
	}
	flush(t, l)
	c.records = 0
	got, _, err := l.Last(t.Context(), 10, func(Event) bool { return true })
	if err != nil || len(got) != 10 || got[9].Message != "4999" || got[0].Message != "4990" {
		t.Fatalf("got %d events, %v", len(got), err)
	}
	if c.records > 2*readStep {
		t.Errorf("%d records were read for the last 10 events", c.records)
	}
}

// TestSince compares the events since a time with those that a reader from the start finds, in logs
// with gaps, a pruned start, unreadable records, and events of which a daemon learned late.
func TestSince(t *testing.T) {
	start := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		s := memory.New()
		defer s.Close()
		l := openLog(t, Config{Store: s, Epoch: func() string { return "" }})
		n := rapid.IntRange(0, 2*readStep).Draw(rt, "events")
		at, down := start, start
		for i := range n {
			e := Event{Type: AgentStarted, Message: fmt.Sprint(i)}
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0: // no daemon ran for a while, and agents ended meanwhile
				down = at
				at = at.Add(time.Hour)
			case 1:
				at = at.Add(time.Second)
			}
			e.Time = at
			if rapid.IntRange(0, 9).Draw(rt, "late") == 0 {
				e = e.With(Late{Late: true})
				e.Time = down.Add(time.Duration(rapid.Int64Range(0, int64(at.Sub(down))).Draw(rt, "before")))
			}
			l.Append(e)
			if e.Time.Equal(at) {
				down = at
			}
		}
		flush(t, l)
		if n > 0 {
			from := rapid.IntRange(1, n).Draw(rt, "gap")
			remove(t, s, l, from, min(from+rapid.IntRange(0, 20).Draw(rt, "length"), n))
			put(t, s, store.SequenceKey(l.prefix, uint64(rapid.IntRange(1, n).Draw(rt, "broken"))), "broken")
			if pruned := rapid.IntRange(0, n).Draw(rt, "pruned"); pruned > 0 {
				remove(t, s, l, 1, pruned)
				put(t, s, l.prunedKey(), fmt.Sprint(pruned))
			}
		}
		since := start.Add(time.Duration(rapid.Int64Range(-1, int64(at.Sub(start))+1).Draw(rt, "since")))
		started := Filter{Types: []string{string(AgentStarted)}}
		want := []Event{}
		for _, e := range read(t, l, 0, started) {
			if e.Type == AgentStarted && !e.Time.Before(since) {
				want = append(want, e)
			}
		}
		got := []Event{}
		started.Since = since
		for e, err := range l.Events(t.Context(), Query{Filter: started}) {
			if err != nil {
				rt.Fatal(err)
			}
			if e.Type == AgentStarted {
				got = append(got, e)
			}
		}
		if lines(got) != lines(want) {
			rt.Fatalf("since %v:\n%s\nwant:\n%s", since, lines(got), lines(want))
		}
	})
}

// What is read of a long log for its last minutes does not grow with it.
func TestSinceReadsTheEnd(t *testing.T) {
	c := &counting{Store: memory.New()}
	defer c.Close()
	l := openLog(t, Config{Store: c, Epoch: func() string { return "" }})
	start := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for i := range 20_000 {
		l.Append(Event{Type: AgentStarted, Time: start.Add(time.Duration(i) * time.Second)})
	}
	flush(t, l)
	c.records = 0
	seen := 0
	for _, err := range l.Events(t.Context(), Query{Filter: Filter{Since: start.Add(19_990 * time.Second)}}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
	}
	if seen != 10 || c.records > 2*readStep {
		t.Errorf("%d events, %d records were read", seen, c.records)
	}
}

// TestQuery: the last ones, and then those that come, each once.
func TestQuery(t *testing.T) {
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{}, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"},
		{Query{After: 18}, "18 19"},
		{Query{Last: 2}, "18 19"},
		{Query{Last: 2, Filter: Filter{Path: "app/0"}}, "16 18"},
		{Query{Last: 5, After: 18}, "18 19"},
		{Query{Last: 5, Filter: Filter{Path: "none"}}, ""},
	} {
		l := openLog(t, Config{})
		for i := range 20 {
			l.Append(Event{Type: AgentStarted, Path: fmt.Sprintf("app/%d", i%2), Message: fmt.Sprint(i)})
		}
		var got []string
		for e, err := range l.Events(t.Context(), c.q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Message)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.q, got, c.want)
		}
		more := len(strings.Fields(c.want))
		if more == 0 {
			continue
		}
		c.q.Follow = true
		got = nil
		for e, err := range l.Events(t.Context(), c.q) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, e.Message); e.Message == "last" {
				break
			}
			if len(got) == more {
				l.Append(Event{Type: AgentStarted, Path: "app/0", Message: "last"})
			}
		}
		if want := strings.TrimSpace(c.want + " last"); strings.Join(got, " ") != want {
			t.Errorf("%+v: %v, want %s", c.q, got, want)
		}
	}
}
