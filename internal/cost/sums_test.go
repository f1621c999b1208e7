package cost

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

// A run counts once, with its time, its calls and their turns, by agent and day and by task, whatever the store does and
// however often it is counted. Who listens hears of it.
func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		l := open(storetest.NewFaults(s, 7, storetest.Rates{Unknown: 0.3, Conflict: 0.3}))
		var heard []string
		l.Counted = func(_ context.Context, path string, incarnation uint64) {
			heard = append(heard, fmt.Sprint(path, " ", incarnation))
		}
		began := time.Now()
		time.Sleep(time.Hour)
		ended := time.Now()
		three, used := int64(3), int64(12)
		one := agentcli.Record{CLI: agentcli.Claude, Tokens: &used, Turns: &three, Model: "m", Ended: time.Now(),
			Usage: agentcli.Models{"m": {Output: 12, Dollars: 0.5}}}
		two := agentcli.Record{CLI: agentcli.Copilot, Ended: time.Now()}
		count := func(r Run) {
			t.Helper()
			for range 2 {
				if err := l.Count(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := Run{Agent: "t/a", ID: "1", Incarnation: 4, Task: "task-1", Calls: []agentcli.Record{one}, Began: began}
		count(r)
		r.Calls = append(r.Calls, two)
		r.Ended = ended
		count(r)
		count(Run{Agent: "t/script", ID: "1", Task: "task-1", Began: began, Ended: ended})
		count(Run{Agent: "t/lost", ID: "1", Ended: time.Now()})

		a := Sum{Counts{Calls: 2, UnknownTokens: 1, UnknownDollars: 1, Turns: 3, UnknownTurns: 1, Runs: 1,
			Time: time.Hour}, 12, 0.5}
		script := Sum{Counts: Counts{Runs: 1, Time: time.Hour}}
		check := func(what string, got, expected Sum, err error) {
			t.Helper()
			if err != nil || got != expected {
				t.Errorf("%s: %+v, %v; expected %+v", what, got, err, expected)
			}
		}
		days, err := l.Days(t.Context(), time.Now())
		check("agent", days["t/a"]["claude"], a, err)
		check("script", days["t/script"]["claude"], script, err)
		check("lost", days["t/lost"]["claude"], Sum{Counts: Counts{Runs: 1}}, err)
		day, err := l.Day(t.Context(), "t/a", time.Now())
		check("its day", day["claude"], a, err)
		if day, err = l.Day(t.Context(), "t/a", time.Now().AddDate(0, 0, 1)); err != nil || len(day) != 0 {
			t.Errorf("another day: %v, %v", day, err)
		}
		task, err := l.OfTask(t.Context(), "task-1")
		check("task", task, a.Plus(script), err)
		task, err = l.OfTask(t.Context(), "task-2")
		check("another task", task, Sum{}, err)
		heard = slices.Compact(heard)
		if !slices.Equal(heard, []string{"t/a 4", "t/script 0", "t/lost 0"}) {
			t.Errorf("%q", heard)
		}
		report, err := l.Report(t.Context(), ByAgent, "", "", time.Now())
		if err != nil || len(report.Rows) != 1 || *report.Total.Turns != 3 || report.Total.UnknownTurns != 1 ||
			report.Total.Runs != 1 || report.Total.Seconds != 3600 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// Attempts at a task are told apart, and a run that has made several counts for none of them, whatever the store does.
func TestOfAttempts(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	l := open(storetest.NewFaults(s, 7, storetest.Rates{Unknown: 0.3, Conflict: 0.3}))
	l.Task = func(_ string, incarnation uint64) (string, int) {
		if incarnation == 3 {
			return "task-1", 0
		}
		return "task-1", int(incarnation)
	}
	for incarnation, used := range map[uint64]int64{1: 10, 2: 20, 3: 40} {
		record := call("", false, agentcli.Models{"m": tokens(used)})
		for range 2 {
			l.Ended("t/a", incarnation, fmt.Sprint(incarnation), time.Time{}, time.Now(), record)
		}
	}
	got, err := l.OfAttempts(t.Context(), "task-1")
	if err != nil || len(got) != 2 || got[1].Tokens != 10 || got[2].Tokens != 20 || got[1].UnknownDollars != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if sum, err := l.OfTask(t.Context(), "task-1"); err != nil || sum.Tokens != 70 || sum.Calls != 3 {
		t.Errorf("the task: %+v, %v", sum, err)
	}
	if got, err := l.OfAttempts(t.Context(), "task"); err != nil || len(got) != 0 {
		t.Errorf("another task: %+v, %v", got, err)
	}
}

// The sums of tasks and attempts go as those of sessions do.
func TestPruneTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		l := open(s)
		count := func(task string) {
			r := Run{Agent: "t/a", ID: task, Task: task, Attempt: 2, Ended: time.Now()}
			if err := l.Count(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		count("old")
		time.Sleep(totalTime)
		count("new")
		time.Sleep(time.Hour)
		if err := l.prune(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		for prefix, key := range map[string]string{taskPrefix: taskKey("new"), attemptPrefix: attemptKey("new", 2)} {
			all, _, err := s.Snapshot(t.Context(), prefix)
			if err != nil || len(all) != 1 || all[0].Key != key {
				t.Errorf("%v, %v", all, err)
			}
		}
	})
}
