package task

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

var ann = Actor{Name: "ann"}

func newState() *State {
	return NewState(Config{
		Project: "web", MaxClaims: func() int { return 3 }, Pause: func(int) time.Duration { return 0 },
		HasCheck: func(service string) bool { return service == "checked" },
		Ready:    func(Place) {}, PoolLimit: func() pools.Limit { return pools.Limit{Max: 2, Within: time.Minute} },
	})
}

// Undo restores the index. A step that stays leaves the index as if it were built from the tasks.
func TestUndo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newState()
		agents := []Actor{{Path: "t/a", Incarnation: 1}, {Path: "t/b", Incarnation: 1}}
		for _, a := range agents {
			s.Begin(a.Path, Life{Incarnation: 1})
		}
		var ids []string
		pool := rapid.SampledFrom([]string{"", "p"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			actor := rapid.SampledFrom(append(agents, ann)).Draw(t, "who")
			id := "none"
			if len(ids) > 0 {
				id = rapid.SampledFrom(ids).Draw(t, "id")
			}
			s.Advance(time.Now())
			before, known := describe(t, s.index), fmt.Sprint(s.Pools())
			step := s.Step()
			var err error
			switch rapid.IntRange(0, 13).Draw(t, "what") {
			case 0, 1:
				var made Task
				d := Draft{Title: "x", Pool: pool.Draw(t, "pool"),
					IfDependencyFails: rapid.SampledFrom(DependencyRules()).Draw(t, "rule")}
				if id != "none" && rapid.Bool().Draw(t, "waits") {
					d.DependsOn = []string{id}
				}
				if made, _, err = step.Create(actor, d); err == nil {
					ids = append(ids, made.ID)
				}
			case 2:
				_, err = step.Claim(actor, Claiming{Pools: []string{"p"}, Any: true})
			case 3:
				_, err = step.Finish(actor, id, Ending{Force: true, Outcome: rapid.SampledFrom(Outcomes()).Draw(t,
					"outcome")})
			case 4:
				_, err = step.Retry(actor, id, "")
			case 5:
				later := time.Now().Add(time.Hour)
				_, err = step.Edit(actor, id, Edit{
					Parent: new(rapid.SampledFrom(append(ids, "")).Draw(t, "parent")), NotBefore: &later,
				})
			case 6:
				s.End("t/a", 1, Exit{Failure: "crashed"})
				err = step.ReleaseOrphans("t/a", 10)
				s.Begin("t/a", Life{Incarnation: 1})
			case 7, 8:
				later := time.Now().Add(time.Hour)
				o := rapid.SampledFrom([]outcome.Report{
					{Kind: outcome.Decomposed, Subtasks: subtasks(3)}, {Kind: outcome.Decomposed,
						Subtasks: subtasks(1)},
					{Kind: outcome.Escalated, Question: "?"}, {Kind: outcome.Retryable}, {Kind: outcome.Deferred,
						NotBefore: &later},
					{Kind: outcome.Blocked, Condition: &outcome.Condition{Kind: outcome.TaskDone, What: id}},
					{Kind: outcome.Blocked, Condition: &outcome.Condition{Kind: outcome.PersonHas, What: "x"}},
				}).Draw(t, "report")
				o.Context = met("other")
				var held []string
				for id := range s.index.claimed[actor.String()] {
					held = append(held, id)
				}
				slices.Sort(held)
				if len(held) > 0 {
					id = rapid.SampledFrom(held).Draw(t, "held")
				}
				_, err = step.Report(actor, id, newOutcome(o), 0)
				if err == nil && o.Kind == outcome.Decomposed {
					ids = append(ids, s.Children(s.Record(id), 3)...)
				}
			case 12:
				c := rapid.SampledFrom([]outcome.Condition{
					{Kind: outcome.CommandSucceeds, What: "true"}, {Kind: outcome.EventOccurs, What: "task.*"},
					{Kind: outcome.ServiceUp, What: "checked"}, {Kind: outcome.PersonHas, What: "x"},
				}).Draw(t, "condition")
				_, err = step.Block(actor, id, c, "", 1)
			case 13:
				if all := s.Waits(); len(all) > 0 {
					w := rapid.SampledFrom(all).Draw(t, "wait")
					if rapid.Bool().Draw(t, "holds") {
						err = step.Unblock(w, "it holds")
					} else {
						err = step.AskAbout(w, "does it?")
					}
				}
			case 9:
				_, err = step.Answer(actor, id, "yes")
			case 10:
				err = step.CancelDoomed()
			case 11:
				if rapid.Bool().Draw(t, "resume") {
					_, err = step.ResumePool(ann, "p")
				} else {
					_, err = step.PausePool(ann, "p", "")
				}
			}
			if n := step.Size(); err == nil && n > MaxStep {
				t.Fatalf("a step of %d", n)
			}
			if err != nil || rapid.Bool().Draw(t, "undo") {
				step.Undo()
				ids = slices.DeleteFunc(ids, func(id string) bool { return s.Record(id) == nil })
				if after := fmt.Sprint(s.Pools()); after != known {
					t.Fatalf("the pools are\n%s\nwant\n%s", after, known)
				}
				if after := describe(t, s.index); after != before {
					t.Fatalf("the index is\n%s\nwant\n%s", after, before)
				}
			}
			fresh := NewIndex()
			fresh.advance(s.index.now)
			for name := range s.index.paused {
				fresh.pausePool(name, true)
			}
			for _, e := range s.index.entries {
				fresh.Add(e.Record)
			}
			if got, want := describe(t, s.index), describe(t, fresh); got != want {
				t.Fatalf("the index is\n%s\nwant\n%s", got, want)
			}
		}
	})
}

// describe returns what an index has derived from its tasks.
func describe(t *rapid.T, x *Index) string {
	var all []string
	for at, l := range x.ready {
		var ids []string
		for i, e := range l.entries {
			if e.pos != i || e.heap != l || i > 0 && l.Less(i, (i-1)/2) {
				t.Fatalf("%s stands where it should not", e.ID)
			}
			ids = append(ids, e.ID)
		}
		if slices.Sort(ids); len(ids) > 0 {
			all = append(all, fmt.Sprint(at, ids))
		}
	}
	slices.Sort(all)
	for r := range merge(x.unfinished.after(nil), x.finished.after(nil)) {
		all = append(all, r.ID)
	}
	return fmt.Sprint(all, x.counts, len(x.deferred.entries), x.keys, x.children, x.openCount, x.waiters, x.claimed,
		x.asked, x.blocked, x.doomed, x.paused, x.held)
}

// A task that was reopened since it was outdated stays, and Purge does not return it again.
func TestPurgeOfWhatWasOpened(t *testing.T) {
	s := newState()
	step := s.Step()
	var ids []string
	for range 2 {
		made, _, err := step.Create(ann, Draft{Title: "x", Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := step.Finish(ann, made.ID, Ending{}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	old := time.Now().Add(time.Second)
	if got := s.Outdated(old); len(got) != 2 {
		t.Fatalf("%v are outdated, want %v", got, ids)
	}
	last := ids[1]
	if _, err := step.Reopen(ann, last, ""); err != nil {
		t.Fatal(err)
	}
	if rest := s.Step().Purge(ids, old); len(rest) > 0 || s.Record(ids[0]) != nil || s.Record(last) == nil {
		t.Errorf("%v is left over; there are %v and %v", rest, s.Record(ids[0]), s.Record(last))
	}
}

// BenchmarkAsk measures the queries of a pool's check and of a first page.
func BenchmarkAsk(b *testing.B) {
	const tasks = 100_000
	s := newState()
	for n := range tasks {
		r := &Record{Number: uint64(n)}
		r.ID, r.Title, r.Status, r.Priority = fmt.Sprint("t-", n), "x", Open, n%5
		r.Pool, r.CreatedAt = fmt.Sprint("p", n%10), time.Unix(int64(n), 0)
		s.index.Add(r)
	}
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			if n, err := s.Count(Filter{Active: true, Pool: "p1"}); err != nil || n != tasks/10 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("count by label", func(b *testing.B) {
		for b.Loop() {
			if n, err := s.Count(Filter{Labels: []string{"none"}}); err != nil || n != 0 {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			if all, err := s.List(Filter{Pool: "p1"}, 20, ""); err != nil || len(all) != 20 {
				b.Fatal(len(all), err)
			}
		}
	})
}
