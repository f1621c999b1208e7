package cost

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// A call in progress counts what it has used so far, also where it reports the total of its session. Reports have it
// once, before and after it is counted.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	l := open(s)
	l.Task = func(_ string, incarnation uint64) (string, int) { return fmt.Sprint("task-", incarnation), 1 }
	reported := func(by By, running int64) map[string]int64 {
		t.Helper()
		r, err := l.Report(t.Context(), by, "", "", time.Now())
		if err != nil || r.Total.Running != running {
			t.Errorf("%+v, %v, expected %d that run", r, err, running)
		}
		all := map[string]int64{}
		for _, row := range append(r.Rows, r.Total) {
			if row.Tokens != nil {
				all[row.Name] = *row.Tokens
			}
		}
		return all
	}
	all := int64(0)
	for i, c := range []struct {
		reported   int64
		cumulative bool
		expected   int64
	}{{10, true, 10}, {25, true, 15}, {4, false, 4}, {40, true, 11}} {
		n := uint64(i + 1)
		r := call("s", c.cumulative, agentcli.Models{"m": tokens(c.reported)})
		r.Ended = time.Time{}
		all += c.expected
		for range 2 {
			sum, err := l.Progress(t.Context(), "t/a", n, r)
			if err != nil || sum.Tokens != c.expected || sum.Calls != 1 {
				t.Errorf("%d: %+v, %v", c.reported, sum, err)
			}
		}
		task := fmt.Sprint("task-", n)
		if got := reported(ByTask, 1); got[task] != c.expected || got[""] != all {
			t.Errorf("%d: %v", c.reported, got)
		}
		r.Ended = time.Now()
		run := Run{Agent: "t/a", ID: fmt.Sprint(i), Incarnation: n, Calls: []agentcli.Record{r}, Ended: r.Ended}
		if err := l.Count(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Progress(t.Context(), "t/a", n, r); err != nil { // it comes late
			t.Error(err)
		}
		if got := reported(ByTask, 0); got[task] != c.expected || got[""] != all {
			t.Errorf("%d: %v", c.reported, got)
		}
	}
	l.Progress(t.Context(), "t/b", 1, unknown())
	r, err := l.Report(t.Context(), ByAgent, "", "", time.Now())
	if err != nil || r.Total.Calls != 5 || r.Total.UnknownTokens != 1 || *r.Total.Tokens != all {
		t.Errorf("%+v, %v", r, err)
	}
	for _, period := range [][2]string{{"", "1d"}, {"2000-01-01", "2000-01-02"}} {
		r, err := l.Report(t.Context(), ByDay, period[0], period[1], time.Now())
		if err != nil || len(r.Rows) != 0 {
			t.Errorf("%v: %+v, %v", period, r, err)
		}
	}
	if got := reported(ByDay, 1); got[dateOf(time.Now())] != all {
		t.Errorf("%v", got)
	}
}

// interrupted is a store in which something happens when it was scanned.
type interrupted struct {
	store.Store
	scanned func()
}

func (s interrupted) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, store.Rev, error) {
	all, rev, err := s.Store.Scan(ctx, prefix, after, limit)
	s.scanned()
	return all, rev, err
}

// A call that ends while a report is made is in it once.
func TestEndsDuringReport(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	var l *Ledger
	r := call("", false, agentcli.Models{"m": tokens(7)})
	var once sync.Once
	l = open(interrupted{s, func() {
		once.Do(func() {
			r.Ended = time.Now()
			l.Ended("t/a", 1, "x", time.Time{}, time.Now(), r)
		})
	}})
	if _, err := l.Progress(t.Context(), "t/a", 1, r); err != nil {
		t.Fatal(err)
	}
	got, err := l.Report(t.Context(), "", "", "", time.Now())
	if err != nil || got.Total.Calls != 1 || *got.Total.Tokens != 7 || got.Total.Running != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
