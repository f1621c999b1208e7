package cost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

func TestParsePeriod(t *testing.T) {
	t.Parallel()
	for args, expected := range map[string]string{
		" ":                              " 2026-11-23",
		"2h ":                            "2026-11-22 2026-11-23",
		"7d 1d":                          "2026-11-16 2026-11-22",
		"2026-11-01 2026-11-20":          "2026-11-01 2026-11-20",
		"2026-11-01T12:00:00 2026-11-01": "2026-11-01 2026-11-01",
		"0s ":                            "2026-11-23 2026-11-23",
		" 2020-01-01":                    " 2020-01-01",
		"1d 2d":                          "invalid request: since is 2026-11-22, after until, which is 2026-11-21",
		"2027-01-01 ":                    "invalid request: since is 2027-01-01, after until",
		"-1d ":                           `since is "-1d"`,
		" 2026-13-01":                    `until is "2026-13-01"`,
		"tomorrow ":                      "expected how long ago, such as 24h or 7d, or a date such as 2026-11-01",
	} {
		since, until, _ := strings.Cut(args, " ")
		p, err := parsePeriod(since, until, t0)
		got := p.since + " " + p.until
		if err != nil {
			if got = err.Error(); !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%q: %v", args, err)
			}
		}
		if err == nil && got != expected || !strings.Contains(got, expected) {
			t.Errorf("%q: %q, expected %q", args, got, expected)
		}
	}
}

// Whatever is asked for, a period is one of dates, or an error that names the place.
func FuzzPeriod(f *testing.F) {
	for _, seed := range []string{"", "24h", "7d", "2026-11-01", "2026-11-01T12:00:00Z", "-1h", "9999999999h", "0000-00-00"} {
		f.Add(seed, "")
		f.Add("2026-11-01", seed)
	}
	date := regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	f.Fuzz(func(t *testing.T, since, until string) {
		p, err := parsePeriod(since, until, t0)
		switch {
		case err != nil:
			if !errors.Is(err, api.ErrInvalid) || len(err.Error()) > 1000 {
				t.Error(err)
			}
		case p.since != "" && !date.MatchString(p.since), !date.MatchString(p.until), p.since > p.until:
			t.Errorf("%+v", p)
		}
	})
}

// A report sums up by anything, of a period, and tells what is not known.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		l := New(Options{
			Store: s, Logger: slog.New(slog.DiscardHandler),
			Owner: func(path string) (string, string) {
				if path == "t/a" {
					return "", "claude"
				}
				return "coders", "claude"
			},
			Task: func(path string, incarnation uint64) (string, int) { return fmt.Sprint("task-", incarnation), 0 },
		})
		priced := agentcli.Models{
			"opus":  {Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40, Dollars: 1.5},
			"haiku": {Output: 5, Dollars: 0.5},
		}
		count := func(r Run) {
			t.Helper()
			if err := l.Count(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		now := func(all ...agentcli.Record) []agentcli.Record {
			for i := range all {
				all[i].Ended = time.Now()
			}
			return all
		}
		count(Run{Agent: "t/a", ID: "1", Incarnation: 1, Calls: now(call("", false, priced), unknown())})
		time.Sleep(24 * time.Hour)
		count(Run{
			Agent: "t/coder-1", ID: "1", Task: "issue 7", Incarnation: 2, Dropped: 2,
			Calls: now(call("", false, priced)),
		})
		count(Run{Agent: "t/coder-2", ID: "1", Calls: now(unknown())})
		text := func(r Report) string {
			var all []string
			for _, row := range append(r.Rows, r.Total) {
				one := fmt.Sprintf("%s:%d-%d-%d", row.Name, row.Calls, row.UnknownTokens, row.UnknownDollars)
				if row.Tokens != nil {
					one += fmt.Sprintf("=%d,%d,%d,%d,%d", *row.Tokens, *row.Input, *row.CacheRead, *row.CacheWrite,
						*row.Output)
				}
				if row.Dollars != nil {
					one += fmt.Sprintf("$%v", *row.Dollars)
				}
				all = append(all, one)
			}
			return strings.Join(all, " ")
		}
		const total = " :6-4-4=170,20,40,60,90$4"
		for by, expected := range map[By]string{
			"":        "t/coder-1:3-2-2=85,10,20,30,45$2 t/a:2-1-1=85,10,20,30,45$2 t/coder-2:1-1-1",
			ByAccount: "claude:6-4-4=170,20,40,60,90$4",
			ByPool:    "coders:4-3-3=85,10,20,30,45$2 :2-1-1=85,10,20,30,45$2",
			ByTask:    "issue 7:3-2-2=85,10,20,30,45$2 task-1:2-1-1=85,10,20,30,45$2 :1-1-1",
			ByModel:   "opus:2-0-0=160,20,40,60,80$3 haiku:2-0-0=10,0,0,0,10$1 :2-2-2 gpt:2-2-2",
			ByDay:     "2000-01-01:2-1-1=85,10,20,30,45$2 2000-01-02:4-3-3=85,10,20,30,45$2",
		} {
			r, err := l.Report(t.Context(), by, "", "", time.Now())
			days := r.Since + " " + r.Until
			if got := text(r); err != nil || got != expected+total || days != "2000-01-01 2000-01-02" {
				t.Errorf("by %s: %v, %s to %s\n%s, expected\n%s", by, err, r.Since, r.Until, got, expected+total)
			}
		}
		r, err := l.Report(t.Context(), ByDay, "2000-01-02", "", time.Now())
		if err != nil || len(r.Rows) != 1 || r.Total.Calls != 4 {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = l.Report(t.Context(), ByDay, "", "1d", time.Now())
		if err != nil || len(r.Rows) != 1 || r.Total.Calls != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := l.Report(t.Context(), "cost", "", "", time.Now()); !errors.Is(err, api.ErrInvalid) {
			t.Error(err)
		}
		// A record that cannot be read hides no other, and is replaced.
		bad := []store.Op{{Kind: store.Put, Key: dayKey("2000-01-01", "t/a"), Value: []byte("{")}}
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, bad); err != nil {
			t.Fatal(err)
		}
		if r, err := l.Report(t.Context(), ByDay, "", "", time.Now()); err != nil || r.Total.Calls != 4 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A report has a bounded number of rows, and their sum is the total.
func TestManyRows(t *testing.T) {
	t.Parallel()
	s := sums{}
	for i := range maxRows + 7 {
		s.add(ByTask, "", "", row{Task: fmt.Sprint(i), amount: dropped(1)})
	}
	rows := s.sorted(ByTask)
	if last := rows[len(rows)-1]; len(rows) != maxRows+1 || last.Name != "7 others" || last.Calls != 7 {
		t.Errorf("%d rows, %+v", len(rows), last)
	}
}

// A run of a command line is counted once for each life, also if the store cannot be written at first.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		defer inner.Close()
		full := storetest.NewFaults(inner, 1, storetest.Rates{})
		full.Fail(store.ErrFull)
		l := open(full)
		ctx, cancel := context.WithCancel(t.Context())
		l.Go = func(f func(context.Context)) { go f(ctx) }
		r := call("", false, agentcli.Models{"m": tokens(1)})
		r.Ended = time.Now()
		l.Ended("t/a", 1, "x", t0, t0, r)
		full.Fail(nil)
		time.Sleep(countAgain)
		synctest.Wait()
		for range 2 {
			l.Ended("t/a", 1, "x", t0, t0, r)
		}
		if got, err := l.Report(ctx, "", "", "", time.Now()); err != nil || got.Total.Calls != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		l.Ended("t/a", 1, "y", t0, t0, r) // numbers repeat in a project that runs once
		l.Ended("t/a", 2, "", t0, t0, r)
		if got, err := l.Report(ctx, "", "", "", time.Now()); err != nil || got.Total.Calls != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		cancel()
	})
}
