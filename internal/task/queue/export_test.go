package queue

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

// An import of exported beads creates the same tasks, which are exported as the same beads. In the
// original queue it changes nothing.
func TestExportImport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		here, there := memory.New(), memory.New()
		defer here.Close()
		defer there.Close()
		q, other := openQueue(t, here), openQueue(t, there)
		defer q.Close()
		defer other.Close()
		ctx := context.Background()
		me := agent("t/a", 1)
		begin(t, q, me)
		word := rapid.SampledFrom([]string{"", "a", "ä <&> \"x\"", "two words", "x\u2028y"})
		var all []string
		some := func(label string) (ids []string) {
			if len(all) > 0 && rapid.Bool().Draw(t, label) {
				ids = append(ids, rapid.SampledFrom(all).Draw(t, label))
			}
			return ids
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if len(all) == 0 || rapid.Bool().Draw(t, "add") {
				priority := rapid.IntRange(0, task.MaxPriority).Draw(t, "priority")
				d := task.Draft{
					Title: "t" + word.Draw(t, "title"), DoneWhen: word.Draw(t, "done when"), Fixes: rapid.SampledFrom([]string{"", "make test", "a 'ä|b'"}).Draw(t, "fixes"), Mode: rapid.SampledFrom([]string{"", "maintenance", "evolution"}).Draw(t, "mode"), Text: word.Draw(t, "text") + "\n\t" + word.Draw(t, "text"), Priority: &priority, Pool: word.Draw(t, "pool"),
					Assignee: word.Draw(t, "assignee"), Labels: []string{word.Draw(t, "label"), word.Draw(t, "label")}, Ephemeral: rapid.Bool().Draw(t, "ephemeral"),
					Status: rapid.SampledFrom([]task.Status{task.Open, task.Blocked, task.Deferred}).Draw(t, "status"), Origin: word.Draw(t, "origin"), DependsOn: some("depends"),
				}
				if rapid.Bool().Draw(t, "later") {
					d.NotBefore = time.Now().Add(time.Hour).UTC().Round(0)
				}
				if parent := some("parent"); parent != nil && find(t, q, parent[0]).Status != task.Closed {
					d.Parent = parent[0]
				}
				made, _, err := q.Create(ctx, ann, d)
				if err == nil {
					all = append(all, made.ID)
				} else if !strings.Contains(err.Error(), "cycle") {
					t.Fatal(err)
				}
				continue
			}
			id := rapid.SampledFrom(all).Draw(t, "id")
			var err error
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				_, err = comment(ctx, q, ann, id, "said "+word.Draw(t, "comment"), "")
			case 1:
				_, err = tryClaim(ctx, q, me, task.Claiming{ID: id})
			case 2:
				_, err = tryFinish(ctx, q, ann, id, task.Ending{
					Outcome: rapid.SampledFrom(task.Outcomes()).Draw(t, "outcome"), Reason: word.Draw(t, "reason"), Force: true,
				})
			case 3:
				_, err = reopen(ctx, q, ann, id, word.Draw(t, "reason"))
			case 4:
				_, err = retry(ctx, q, ann, id, word.Draw(t, "reason"))
			}
			_ = err // a refused change has no effect
		}
		beads := exported(t, q)
		var file strings.Builder
		for _, id := range slices.Sorted(maps.Keys(beads)) {
			file.WriteString(beads[id] + "\n")
		}
		if got := bring(t, q, file.String()); got != (task.ImportReport{Unchanged: len(all)}) {
			t.Fatalf("imported where they came from: %+v", got)
		}
		if got := bring(t, other, file.String()); got != (task.ImportReport{Created: len(all)}) {
			t.Fatalf("%+v", got)
		}
		if got := exported(t, other); !maps.Equal(got, beads) {
			t.Fatalf("exported\n%v\nand then\n%v", beads, got)
		}
		for _, id := range all {
			want, err := q.Get(ctx, id)
			got, otherErr := other.Get(ctx, id)
			if err != nil || otherErr != nil {
				t.Fatal(err, otherErr)
			}
			for _, d := range []*task.Detail{&want, &got} { // beads do not have these fields
				for i := range d.Comments {
					d.Comments[i].Incarnation = 0
				}
				if d.Task.Claim != nil {
					d.Task.Assignee = d.Task.Claim.By
				}
				if d.Task.Status != task.Closed {
					d.Task.Reason = ""
				}
				d.Task.Claim, d.Task.Claims, d.Task.Retries, d.Task.ClosedBy = nil, 0, 0, ""
				d.Attempts, d.Task.LastAttemptAt = nil, time.Time{}
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s was\n%s\nand is\n%s", id, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
			}
		}
	})
}
