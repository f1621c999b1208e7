package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

// A list has the tasks that were closed, or of which an attempt has ended, since a time: not those
// that were only edited, or are tried for the first time. The time survives the queue.
func TestEndedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		q := openQueue(t, s)
		defer func() { q.Close() }()
		a := agent("t/a", 1)
		begin(t, q, a)
		made := map[string]string{}
		for _, title := range []string{"closed before", "tried before", "closed", "tried", "running", "commented"} {
			made[title] = create(t, q, task.Draft{Title: title}).ID
			time.Sleep(time.Minute)
		}
		try := func(title string) {
			claim(t, q, a, task.Claiming{ID: made[title]})
			o, err := outcome.New(outcome.Report{
				Kind: outcome.Retryable, Context: learned(outcome.VerificationFailed),
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.Report(t.Context(), a, made[title], o); err != nil {
				t.Fatal(err)
			}
		}
		finish(t, q, ann, made["closed before"])
		try("tried before")
		time.Sleep(time.Hour)
		since := time.Now()
		finish(t, q, ann, made["closed"])
		try("tried")
		claim(t, q, a, task.Claiming{ID: made["running"]})
		if _, err := comment(t.Context(), q, ann, made["commented"], "look", ""); err != nil {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			for want, f := range map[string]task.Filter{
				"tried":        {},
				"closed":       {Statuses: []string{"closed"}},
				"closed tried": {All: true},
				"":             {Statuses: []string{"blocked"}},
			} {
				f.EndedSince = since.Format(time.RFC3339Nano)
				all, err := q.List(t.Context(), f, 0, "")
				if err != nil || ids(all) != want {
					t.Errorf("%+v: %q, want %q, %v", f, ids(all), want, err)
				}
				if n, err := q.Count(t.Context(), f); err != nil || n != len(all) {
					t.Errorf("%+v: counted %d of %d, %v", f, n, len(all), err)
				}
			}
		}
		check()
		q.Close()
		q = openQueue(t, s)
		check()
		newer := fmt.Sprintf(`{"id":%q,"title":"tried","updated_at":%q}`, made["tried"],
			time.Now().Add(time.Minute).Format(time.RFC3339))
		if got := bring(t, q, newer); got.Updated != 1 {
			t.Errorf("%+v", got)
		}
		check()
		_, err := q.List(t.Context(), task.Filter{EndedSince: "yesterday"}, 0, "")
		wantErr(t, err, task.ErrInvalid, "ended_since", "yesterday")

		d, err := q.Brief(t.Context(), made["tried"])
		if err != nil || len(d.Attempts) != 1 || d.Comments != nil || d.Task.Comments != 1 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
