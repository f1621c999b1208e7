package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

var ann = task.Actor{Name: "ann"}

func agent(path string, incarnation uint64) task.Actor {
	return task.Actor{Path: path, Incarnation: incarnation}
}

func lifeOf(incarnation uint64) task.Life {
	return task.Life{Incarnation: incarnation, ID: fmt.Sprint("life", incarnation)}
}

func testOptions(s store.Store) Options {
	return Options{
		Store: s, Name: "web", Logger: slog.New(slog.DiscardHandler), Pause: func(int) time.Duration { return 0 },
	}
}

func openQueue(t fataler, s store.Store) *Queue {
	t.Helper()
	return openWith(t, testOptions(s))
}

func openWith(t fataler, o Options) *Queue {
	t.Helper()
	q, err := Open(context.Background(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return q
}

// fresh returns a queue in memory that is closed after the test.
func fresh(t *testing.T) *Queue {
	t.Helper()
	s := memory.New()
	q := openQueue(t, s)
	t.Cleanup(func() {
		q.Close()
		s.Close()
	})
	return q
}

func create(t fataler, q *Queue, d task.Draft) task.Task {
	t.Helper()
	made, fresh, err := q.Create(context.Background(), ann, d)
	if err != nil || !fresh {
		t.Fatalf("creating %+v: fresh %v, %v", d, fresh, err)
	}
	return made
}

func begin(t fataler, q *Queue, actor task.Actor) {
	t.Helper()
	q.Begin(actor.Path, lifeOf(actor.Incarnation))
	if err := q.ReleaseOrphans(context.Background(), actor.Path); err != nil {
		t.Fatalf("%v", err)
	}
}

func claim(t fataler, q *Queue, actor task.Actor, c task.Claiming) task.Task {
	t.Helper()
	got, err := tryClaim(context.Background(), q, actor, c)
	if err != nil {
		t.Fatalf("%s claims %+v: %v", actor, c, err)
	}
	return got
}

func find(t fataler, q *Queue, id string) task.Task {
	t.Helper()
	got, err := q.Find(context.Background(), id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return got
}

func finish(t fataler, q *Queue, actor task.Actor, id string) {
	t.Helper()
	if _, err := tryFinish(context.Background(), q, actor, id, task.Ending{}); err != nil {
		t.Fatalf("closing %s: %v", id, err)
	}
}

func ids(tasks []task.Task) string {
	var all []string
	for _, t := range tasks {
		all = append(all, t.Title)
	}
	return strings.Join(all, " ")
}

func wantErr(t *testing.T, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v does not say %q", err, w)
		}
	}
}

func TestCreate(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	first := create(t, q, task.Draft{Title: " one ", Text: "a\nb", Labels: []string{"b", "a", "b"}, Pool: "p"})
	if first.Title != "one" || first.Priority != task.DefaultPriority || first.Status != task.Open || first.Type != "task" || !first.Ready ||
		!slices.Equal(first.Labels, []string{"a", "b"}) || first.CreatedBy != "ann" || first.CreatedAt.IsZero() || !strings.HasPrefix(first.ID, "web-") {
		t.Errorf("%+v", first)
	}
	d, err := q.Get(ctx, strings.TrimPrefix(first.ID, "web-"))
	if err != nil || d.Text != "a\nb" || d.Task.ID != first.ID || len(d.Comments) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	keyed := create(t, q, task.Draft{Title: "k", Key: "order/a/1"})
	again, made, err := q.Create(ctx, ann, task.Draft{Title: "other", Key: "order/a/1"})
	if err != nil || made || again.ID != keyed.ID || again.Title != "k" {
		t.Errorf("%+v, %v, %v", again, made, err)
	}
	no := -1
	for name, test := range map[string]struct {
		d     task.Draft
		kind  error
		words string
	}{
		"no title":      {task.Draft{Title: " "}, task.ErrInvalid, "title is missing"},
		"long":          {task.Draft{Title: strings.Repeat("x", task.MaxTitle+1)}, task.ErrInvalid, "2001 bytes, at most 2000"},
		"two lines":     {task.Draft{Title: "a\nb"}, task.ErrInvalid, "one line"},
		"text":          {task.Draft{Title: "a", Text: strings.Repeat("x", task.MaxText+1)}, task.ErrInvalid, "at most 262144"},
		"no UTF-8":      {task.Draft{Title: "a", Text: "\xff"}, task.ErrInvalid, "UTF-8"},
		"priority":      {task.Draft{Title: "a", Priority: &no}, task.ErrInvalid, "-1, expected 0 (most urgent) to 4"},
		"status":        {task.Draft{Title: "a", Status: "closed"}, task.ErrInvalid, `a new task is "closed", expected open, blocked, deferred`},
		"status typo":   {task.Draft{Title: "a", Status: "defered"}, task.ErrInvalid, `did you mean "deferred"`},
		"parent":        {task.Draft{Title: "a", Parent: "web-zzz"}, task.ErrNotFound, "web-zzz"},
		"depends on":    {task.Draft{Title: "a", DependsOn: []string{"../x"}}, task.ErrNotFound, "../x"},
		"label":         {task.Draft{Title: "a", Labels: []string{"\x1b[31m"}}, task.ErrInvalid, "one line"},
		"many labels":   {task.Draft{Title: "a", Labels: strings.Fields(numbers(task.MaxLabels + 1))}, task.ErrInvalid, "51 labels, at most 50"},
		"the key":       {task.Draft{Title: "a", Key: strings.Repeat("k", task.MaxName+1)}, task.ErrInvalid, "257 bytes"},
		"pool too long": {task.Draft{Title: "a", Pool: strings.Repeat("k", task.MaxName+1)}, task.ErrInvalid, "the pool has 257 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := q.Create(ctx, ann, test.d)
			wantErr(t, err, test.kind, test.words)
		})
	}
	if all, err := q.List(ctx, task.Filter{}, 0, ""); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, " ")
}

// The most urgent task comes first, and of those the oldest.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		q := openQueue(t, s)
		defer s.Close()
		defer q.Close()
		ctx := t.Context()
		a := agent("t/a", 1)
		begin(t, q, a)
		for _, d := range []struct {
			title, pool, assignee string
			priority              int
		}{{"later", "p", "", 2}, {"urgent", "p", "", 0}, {"last", "p", "", 4}, {"other", "x", "", 0}, {"mine", "", "t/a", 3}, {"nobody's", "", "", 0}, {"later2", "p", "", 2}} {
			create(t, q, task.Draft{Title: d.title, Pool: d.pool, Assignee: d.assignee, Priority: &d.priority})
			time.Sleep(time.Second)
		}
		h, err := q.Hook(ctx, a, []string{"p"})
		if err != nil || ids(h.Mine) != "" || ids(h.Ready) != "mine" || ids(h.Pool) != "urgent later later2 last" || h.More != 0 {
			t.Errorf("%+v, %v", h, err)
		}
		var got []task.Task
		for range 5 {
			got = append(got, claim(t, q, a, task.Claiming{Pools: []string{"p"}}))
		}
		if ids(got) != "mine urgent later later2 last" {
			t.Errorf("%s", ids(got))
		}
		_, err = tryClaim(ctx, q, a, task.Claiming{Pools: []string{"p"}})
		wantErr(t, err, task.ErrNothing)
		if got := claim(t, q, a, task.Claiming{Any: true, Key: "k"}); got.Title != "nobody's" || got.Claim.By != "t/a" || got.Claim.Incarnation != 1 || got.Claim.Life != "" {
			t.Errorf("%+v", got)
		}
		if got := claim(t, q, a, task.Claiming{Any: true, Key: "k"}); got.Title != "nobody's" {
			t.Errorf("%+v", got)
		}
		if h, err = q.Hook(ctx, a, []string{"p"}); err != nil || ids(h.Mine) != "urgent nobody's later later2 mine last" {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// Pages of a list add up to the list.
func TestPages(t *testing.T) {
	q := fresh(t)
	for n := range 30 {
		priority := n * 7 % 5
		create(t, q, task.Draft{Title: fmt.Sprint(n), Priority: &priority})
	}
	all, err := q.List(t.Context(), task.Filter{}, 0, "")
	if err != nil || len(all) != 30 {
		t.Fatalf("%d tasks, %v", len(all), err)
	}
	for _, limit := range []int{1, 7, 30, 31} {
		var got []task.Task
		for after := ""; ; after = got[len(got)-1].ID {
			page, err := q.List(t.Context(), task.Filter{}, limit, after)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, page...); len(page) < limit {
				break
			}
		}
		if ids(got) != ids(all) {
			t.Errorf("pages of %d:\n%s\nwant\n%s", limit, ids(got), ids(all))
		}
	}
	_, err = q.List(t.Context(), task.Filter{}, 0, "web-gone")
	wantErr(t, err, task.ErrConflict, "web-gone", "begin again")
}

func TestDepends(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	a := create(t, q, task.Draft{Title: "a"})
	b := create(t, q, task.Draft{Title: "b", DependsOn: []string{a.ID}})
	if b.Ready || !slices.Equal(b.WaitsFor, []string{a.ID}) {
		t.Errorf("%+v", b)
	}
	_, err := tryClaim(ctx, q, ann, task.Claiming{ID: b.ID})
	wantErr(t, err, task.ErrConflict, "waits for "+a.ID)
	_, err = edit(ctx, q, ann, a.ID, task.Edit{AddDepends: []string{b.ID}})
	wantErr(t, err, task.ErrInvalid, "cycle: ", a.ID+" -> "+b.ID+" -> "+a.ID)
	_, err = edit(ctx, q, ann, a.ID, task.Edit{Parent: &b.ID}) // b waits for a, its child, and for a: fine
	if err != nil {
		t.Error(err)
	}
	none := ""
	if _, err = edit(ctx, q, ann, a.ID, task.Edit{Parent: &none}); err != nil {
		t.Error(err)
	}
	_, err = edit(ctx, q, ann, b.ID, task.Edit{Parent: &a.ID})
	wantErr(t, err, task.ErrInvalid, "cycle")
	finish(t, q, ann, a.ID)
	if b = find(t, q, b.ID); !b.Ready || b.WaitsFor != nil {
		t.Errorf("%+v", b)
	}
	if _, err := reopen(ctx, q, ann, a.ID, "not yet"); err != nil {
		t.Error(err)
	}
	if b = find(t, q, b.ID); b.Ready {
		t.Errorf("%+v", b)
	}
	b, err = edit(ctx, q, ann, b.ID, task.Edit{RemoveDepends: []string{a.ID}})
	if err != nil || !b.Ready || b.DependsOn != nil {
		t.Errorf("%+v, %v", b, err)
	}
	_, err = edit(ctx, q, ann, b.ID, task.Edit{RemoveDepends: []string{a.ID}})
	wantErr(t, err, task.ErrInvalid, "does not depend on "+fmt.Sprintf("%q", a.ID))
	_, err = edit(ctx, q, ann, b.ID, task.Edit{AddDepends: []string{b.ID}})
	wantErr(t, err, task.ErrInvalid, "depends on itself")
}

func TestChildren(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	parent := create(t, q, task.Draft{Title: "epic"})
	one := create(t, q, task.Draft{Title: "one", Parent: parent.ID})
	two := create(t, q, task.Draft{Title: "two", Parent: parent.ID})
	if p := find(t, q, parent.ID); p.Ready || len(p.WaitsFor) != 2 {
		t.Errorf("%+v", p)
	}
	_, err := tryFinish(ctx, q, ann, parent.ID, task.Ending{})
	wantErr(t, err, task.ErrConflict, "2 children", one.ID, two.ID, "--force")
	finish(t, q, ann, one.ID)
	finish(t, q, ann, two.ID)
	if p := find(t, q, parent.ID); !p.Ready {
		t.Errorf("%+v", p)
	}
	finish(t, q, ann, parent.ID)
	_, _, err = q.Create(ctx, ann, task.Draft{Title: "three", Parent: parent.ID})
	wantErr(t, err, task.ErrConflict, "closed")
	if d, err := q.Get(ctx, parent.ID); err != nil || len(d.Children) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

// The claims of an incarnation end with it, however that is detected, and it can do nothing more.
func TestDeath(t *testing.T) {
	for how, over := range map[string]func(*Queue){
		"ended":       func(q *Queue) { q.End("t/a", 1, task.Exit{}) },
		"successor":   func(q *Queue) { q.Begin("t/a", lifeOf(2)) },
		"same number": func(q *Queue) { q.Begin("t/a", task.Life{Incarnation: 1, ID: "another"}) },
	} {
		t.Run(how, func(t *testing.T) {
			q := fresh(t)
			ctx := t.Context()
			a, b := agent("t/a", 1), agent("t/b", 1)
			begin(t, q, a)
			begin(t, q, b)
			for i := range 30 {
				create(t, q, task.Draft{Title: fmt.Sprint(i), Pool: "p"})
				claim(t, q, a, task.Claiming{Pools: []string{"p"}})
			}
			other := create(t, q, task.Draft{Title: "other", Pool: "p"})
			claim(t, q, b, task.Claiming{ID: other.ID})
			over(q)
			if err := q.ReleaseOrphans(ctx, "t/a"); err != nil {
				t.Fatal(err)
			}
			ready, err := q.List(ctx, task.Filter{Ready: true}, 0, "")
			if err != nil || len(ready) != 30 || ready[0].Claim != nil || ready[0].Claims != 1 {
				t.Errorf("%d, %v", len(ready), err)
			}
			if got := find(t, q, other.ID); got.Status != task.InProgress {
				t.Errorf("%+v", got)
			}
			if how == "same number" {
				return
			}
			_, err = tryClaim(ctx, q, a, task.Claiming{Pools: []string{"p"}})
			wantErr(t, err, task.ErrStale)
			_, err = tryFinish(ctx, q, a, ready[0].ID, task.Ending{})
			wantErr(t, err, task.ErrStale)
			_, err = comment(ctx, q, a, ready[0].ID, "x", "")
			wantErr(t, err, task.ErrStale)
			_, err = release(ctx, q, a, ready[0].ID, "")
			wantErr(t, err, task.ErrStale)
			_, err = edit(ctx, q, a, ready[0].ID, task.Edit{AddLabels: []string{"x"}})
			wantErr(t, err, task.ErrStale)
			_, _, err = q.Create(ctx, a, task.Draft{Title: "x"})
			wantErr(t, err, task.ErrStale)
			_, err = retry(ctx, q, a, ready[0].ID, "")
			wantErr(t, err, task.ErrStale)
		})
	}
}

// A new daemon releases the tasks of agents that have exited meanwhile.
func TestSweep(t *testing.T) {
	s := memory.New()
	defer s.Close()
	q := openQueue(t, s)
	for _, path := range []string{"t/lives", "t/died", "t/unknown"} {
		begin(t, q, agent(path, 1))
		create(t, q, task.Draft{Title: path, Assignee: path})
		claim(t, q, agent(path, 1), task.Claiming{})
	}
	person := create(t, q, task.Draft{Title: "person"})
	claim(t, q, ann, task.Claiming{ID: person.ID})
	q.Close()
	q = openQueue(t, s)
	defer q.Close()
	begin(t, q, agent("t/lives", 1))
	if err := q.Sweep(t.Context(), func(path string) bool { return path == "t/unknown" }); err != nil {
		t.Fatal(err)
	}
	ready, err := q.List(t.Context(), task.Filter{Ready: true}, 0, "")
	if err != nil || ids(ready) != "t/died" || ready[0].Reason != "incarnation 1 of t/died is over" {
		t.Errorf("%+v, %v", ready, err)
	}
	// This incarnation is still alive and continues.
	if h, err := q.Hook(t.Context(), agent("t/lives", 1), nil); err != nil || ids(h.Mine) != "t/lives" {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		q := openQueue(t, s)
		defer s.Close()
		defer q.Close()
		ctx := t.Context()
		later := create(t, q, task.Draft{Title: "later", NotBefore: time.Now().Add(time.Hour)})
		off := create(t, q, task.Draft{Title: "off", Status: task.Deferred})
		if later.Ready || later.Status != task.Deferred || off.Ready || off.Status != task.Deferred {
			t.Errorf("%+v, %+v", later, off)
		}
		_, err := tryClaim(ctx, q, ann, task.Claiming{ID: later.ID})
		wantErr(t, err, task.ErrConflict, "deferred until")
		_, err = tryClaim(ctx, q, ann, task.Claiming{ID: off.ID})
		wantErr(t, err, task.ErrConflict, "--status open")
		time.Sleep(time.Hour)
		if got := find(t, q, later.ID); !got.Ready || got.Status != task.Open {
			t.Errorf("%+v", got)
		}
		if got := find(t, q, off.ID); got.Ready {
			t.Errorf("%+v", got)
		}
		claim(t, q, ann, task.Claiming{ID: later.ID})
		if got, err := retry(ctx, q, ann, off.ID, ""); err != nil || !got.Ready {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestFinish(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	a, b := agent("t/a", 1), agent("t/b", 1)
	begin(t, q, a)
	begin(t, q, b)
	one := create(t, q, task.Draft{Title: "one"})
	claim(t, q, a, task.Claiming{ID: one.ID})
	for _, err := range []error{
		func() error { _, err := tryFinish(ctx, q, b, one.ID, task.Ending{}); return err }(),
		func() error { _, err := tryClaim(ctx, q, b, task.Claiming{ID: one.ID}); return err }(),
		func() error { _, err := release(ctx, q, b, one.ID, ""); return err }(),
		func() error { _, err := retry(ctx, q, b, one.ID, ""); return err }(),
	} {
		wantErr(t, err, task.ErrConflict, "in progress at t/a, incarnation 1")
	}
	for range 2 { // repeated, as after a lost answer
		got, err := tryFinish(ctx, q, a, one.ID, task.Ending{Reason: "no luck"})
		if err != nil || got.Status != task.Closed || got.Outcome != task.Completed || got.Reason != "no luck" ||
			got.ClosedBy != "t/a" || got.Claim != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_, err := tryFinish(ctx, q, b, one.ID, task.Ending{})
	wantErr(t, err, task.ErrConflict, "closed (completed by t/a", "coppice task reopen")
	_, err = tryFinish(ctx, q, ann, one.ID, task.Ending{Outcome: "complete"})
	wantErr(t, err, task.ErrConflict)
	two := create(t, q, task.Draft{Title: "two"})
	_, err = tryFinish(ctx, q, ann, two.ID, task.Ending{Outcome: "complete"})
	wantErr(t, err, task.ErrInvalid, `did you mean "completed"`)
	got, err := retry(ctx, q, ann, one.ID, "again")
	if err != nil || !got.Ready || got.Outcome != "" || !got.ClosedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestComments(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	one := create(t, q, task.Draft{Title: "one"})
	for i := range 10 {
		for range 2 { // each repeated, as after a lost answer
			if _, err := comment(ctx, q, ann, one.ID, fmt.Sprint(i), fmt.Sprint("key", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d, err := q.Get(ctx, one.ID)
	if err != nil || len(d.Comments) != 10 || d.Task.Comments != 10 || d.Comments[9].Text != "9" || d.Comments[0].By != "ann" {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = comment(ctx, q, ann, one.ID, " ", "")
	wantErr(t, err, task.ErrInvalid, "empty")
	_, err = comment(ctx, q, ann, one.ID, strings.Repeat("x", task.MaxComment+1), "")
	wantErr(t, err, task.ErrInvalid, "at most 65536")
}

// Ephemeral tasks are removed some time after they are closed, and no others.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		q := openQueue(t, s)
		defer s.Close()
		defer q.Close()
		ctx := t.Context()
		const day = 24 * time.Hour
		var all []task.Task
		for i := range 50 {
			all = append(all, create(t, q, task.Draft{Title: fmt.Sprint(i), Text: "x", Ephemeral: true, Origin: "order:o"}))
			for c := range i * 2 {
				if _, err := comment(ctx, q, ann, all[i].ID, fmt.Sprint(c), ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		kept := create(t, q, task.Draft{Title: "kept"})
		finish(t, q, ann, kept.ID)
		time.Sleep(10 * day) // the age of a task does not count
		for _, known := range all[:40] {
			finish(t, q, ann, known.ID)
		}
		purge := func(want int) {
			t.Helper()
			if n, err := q.Purge(ctx, day); err != nil || n != want {
				t.Errorf("%d removed, %v, want %d", n, err, want)
			}
		}
		purge(0)
		time.Sleep(day - time.Second)
		purge(0)
		time.Sleep(time.Second)
		purge(40)
		purge(0)
		left, err := q.List(ctx, task.Filter{All: true}, 0, "")
		if err != nil || len(left) != 11 {
			t.Errorf("%d are left, %v", len(left), err)
		}
		for _, known := range all[40:] {
			finish(t, q, ann, known.ID)
		}
		time.Sleep(day)
		purge(10)
		records, _, err := s.Snapshot(ctx, "work")
		if err != nil || len(records) != 2 { // the marker and the remaining task
			t.Errorf("%d records are left, %v", len(records), err)
		}
	})
}

func TestClosed(t *testing.T) {
	q := fresh(t)
	q.Close()
	_, _, err := q.Create(t.Context(), ann, task.Draft{Title: "x"})
	wantErr(t, err, store.ErrClosed)
}
