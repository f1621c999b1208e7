package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/transfer"
)

// beads is a file with all features of beads.
const beads = `{"id":"bd-1","title":"Epic","description":"all\nof <it> & \"more\"","status":"open","priority":1,"issue_type":"epic","created_at":"2026-01-02T03:04:05.123456789-08:00","updated_at":"2026-01-02T03:04:05.5-08:00","labels":["b","a"],"comments":[{"id":7,"issue_id":"bd-1","author":"ann","text":"first","created_at":"2026-01-02T03:04:06Z","mood":"fine"},{"id":8,"issue_id":"bd-1","author":"bob","text":"","created_at":"2026-01-02T03:04:07Z"}]}
{"id":"bd-1.1","title":"Child","description":"","design":"as before","acceptance_criteria":"it works","notes":"n","status":"in_progress","priority":0,"issue_type":"bug","assignee":"ann","estimated_minutes":30,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","external_ref":"gh-9","dependencies":[{"issue_id":"bd-1.1","depends_on_id":"bd-1","type":"parent-child","created_at":"2026-01-02T03:04:05Z","created_by":"ann"},{"issue_id":"bd-1.1","depends_on_id":"bd-a3f8","type":"blocks","created_at":"2026-01-02T03:04:05Z","created_by":"ann","metadata":"{}"},{"issue_id":"bd-1.1","depends_on_id":"bd-old","type":"discovered-from","created_at":"2026-01-02T03:04:05Z","created_by":"ann"}]}

{"_type":"issue","id":"bd-a3f8","title":"Done","description":null,"status":"closed","priority":4,"issue_type":"chore","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T04:04:05Z","closed_at":"2026-01-02T04:04:05Z","close_reason":"merged","labels":[],"comments":[],"compaction_level":1,"new_field":{"z":1,"a":[1.50,"x"]}}
{"id":"bd-gone","title":"Gone","status":"tombstone","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T04:04:05Z","deleted_at":"2026-01-02T04:04:05Z","deleted_by":"ann"}
{"id":"bd-hook","title":"Hooked","status":"hooked","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","defer_until":"2030-01-01T00:00:00Z"}
`

// plan parses a file of beads.
func plan(t fataler, text string) *transfer.Plan {
	t.Helper()
	p, err := transfer.ReadPlan("f", strings.NewReader(text), int64(len(text)), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// bring imports a file of beads.
func bring(t fataler, q *Queue, text string) (sum task.ImportReport) {
	t.Helper()
	for batch, err := range plan(t, text).Batches() {
		if err != nil {
			t.Fatalf("%v", err)
		}
		var all []*transfer.Bead
		for _, line := range batch {
			b, err := transfer.ParseBead(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, b)
		}
		r, err := q.Import(context.Background(), ann, all)
		if err != nil {
			t.Fatalf("%v", err)
		}
		sum.Created, sum.Updated, sum.Unchanged = sum.Created+r.Created, sum.Updated+r.Updated, sum.Unchanged+r.Unchanged
	}
	return sum
}

// exported returns all tasks as beads, by id.
func exported(t fataler, q *Queue) map[string]string {
	t.Helper()
	all := map[string]string{}
	for after := ""; ; {
		p, err := q.Export(context.Background(), after)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, bead := range p.Beads {
			var id struct{ ID string }
			if err := json.Unmarshal(bead, &id); err != nil || all[id.ID] != "" {
				t.Fatalf("%s: %v", bead, err)
			}
			all[id.ID] = string(bead)
		}
		if after = p.Next; after == "" {
			return all
		}
	}
}

// An unchanged bead is exported byte by byte as it was imported.
func TestRoundTrip(t *testing.T) {
	q := fresh(t)
	if got := bring(t, q, beads); got != (task.ImportReport{Created: 5}) {
		t.Errorf("%+v", got)
	}
	compare := func() {
		t.Helper()
		got := exported(t, q)
		for line := range strings.Lines(beads) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			b, err := transfer.ParseBead([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			if got[b.ID()] != line {
				t.Errorf("exported\n%s\nwant\n%s", got[b.ID()], line)
			}
			delete(got, b.ID())
		}
		if len(got) > 0 {
			t.Errorf("more than there was: %v", got)
		}
	}
	compare()
	if got := bring(t, q, beads); got != (task.ImportReport{Unchanged: 5}) {
		t.Errorf("%+v", got)
	}
	compare()
	epic, err := q.Get(t.Context(), "bd-1")
	if err != nil || epic.Text != "all\nof <it> & \"more\"" || epic.Task.Ready || !slices.Equal(epic.Task.WaitsFor, []string{"bd-1.1"}) ||
		!slices.Equal(epic.Task.Labels, []string{"a", "b"}) || len(epic.Comments) != 2 || epic.Comments[0].Text != "first" || epic.Comments[1].By != "bob" {
		t.Errorf("%+v, %v", epic, err)
	}
	child := find(t, q, "bd-1.1")
	if child.Parent != "bd-1" || !slices.Equal(child.DependsOn, []string{"bd-a3f8"}) || !reflect.DeepEqual(child.Links, []task.Link{{Type: "discovered-from", ID: "bd-old"}}) ||
		child.Status != task.InProgress || child.Assignee != "ann" || child.Claim != nil {
		t.Errorf("%+v", child)
	}
	if done := find(t, q, "bd-a3f8"); done.Status != task.Closed || done.Outcome != task.Completed || done.Reason != "merged" {
		t.Errorf("%+v", done)
	}
	if gone := find(t, q, "bd-gone"); gone.Status != task.Closed || gone.Outcome != task.Cancelled {
		t.Errorf("%+v", gone)
	}
	if hooked := find(t, q, "bd-hook"); hooked.Status != task.Blocked {
		t.Errorf("%+v", hooked)
	}
}

// Dependencies of a bead block its task. Anything else that blocks a bead makes the task blocked.
func TestHeldBeads(t *testing.T) {
	for members, want := range map[string]string{
		`"dependencies":[{"depends_on_id":"a","type":"blocks"}]`:                      "open, waits for [a]",
		`"dependencies":[{"depends_on_id":"a"}]`:                                      "open, waits for [a]",
		`"dependencies":[{"depends_on_id":"a","type":"waits-for","metadata":"{}"}]`:   "open, waits for [a]",
		`"dependencies":[{"depends_on_id":"a","type":"conditional-blocks"}]`:          "blocked",
		`"dependencies":[{"depends_on_id":"external:web:login","type":"blocks"}]`:     "blocked",
		`"dependencies":[{"depends_on_id":"external:web:login","type":"related"}]`:    "open, ready",
		`"dependencies":[{"depends_on_id":"external:web:1","type":"parent-child"}]`:   "open, ready",
		`"dependencies":[{"depends_on_id":"a","type":"tracks"}]`:                      "open, ready",
		`"status":"deferred","is_template":true`:                                      "blocked",
		`"pinned":true`:                                                               "blocked",
		`"pinned":false`:                                                              "open, ready",
		`"status":"in_progress","pinned":true`:                                        "in_progress",
		`"status":"closed","dependencies":[{"depends_on_id":"a","type":"waits-for"}]`: "closed",
	} {
		t.Run(members, func(t *testing.T) {
			q := fresh(t)
			line := `{"id":"b","title":"B",` + members + `,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"}`
			bring(t, q, `{"id":"a","title":"A"}`+"\n"+line)
			known := find(t, q, "b")
			got := string(known.Status)
			switch {
			case known.Ready:
				got += ", ready"
			case len(known.WaitsFor) > 0:
				got += fmt.Sprintf(", waits for %v", known.WaitsFor)
			}
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := exported(t, q)["b"]; got != line {
				t.Errorf("exported\n%s\nwant\n%s", got, line)
			}
			title := "other"
			_, err := edit(t.Context(), q, ann, "b", task.Edit{Title: &title, AddLabels: []string{"l"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := exported(t, q)["b"]; !strings.Contains(got, members) {
				t.Errorf("after an edit: %s", got)
			}
		})
	}
	if _, err := transfer.ParseBead([]byte(`{"id":"b","title":"B","dependencies":[{"depends_on_id":"external:\u001b"}]}`)); err == nil {
		t.Error("an id with a control character is taken")
	}
}

// The text of an imported task is the edited one, even if empty, until a newer bead comes.
func TestImportedText(t *testing.T) {
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{"memory": memory.New(), "sqlite": file} {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			q := openQueue(t, s)
			defer q.Close()
			bring(t, q, beads)
			want := func(text string) {
				t.Helper()
				d, err := q.Get(t.Context(), "bd-1")
				var b struct{ Description *string }
				if e := json.Unmarshal([]byte(exported(t, q)["bd-1"]), &b); err != nil || e != nil || d.Text != text || b.Description == nil || *b.Description != text {
					t.Errorf("%q, exported %v, want %q; %v, %v", d.Text, b.Description, text, err, e)
				}
			}
			want("all\nof <it> & \"more\"")
			for _, text := range []string{"", "new", ""} {
				if _, err := edit(t.Context(), q, ann, "bd-1", task.Edit{Text: &text}); err != nil {
					t.Fatal(err)
				}
				want(text)
			}
			bring(t, q, `{"id":"bd-1","title":"Epic","description":"newer","updated_at":"2126-01-02T03:04:05Z"}`)
			want("newer")
		})
	}
}

// Changed fields are exported with their new values, all others as they were imported.
func TestExportChanged(t *testing.T) {
	q := fresh(t)
	bring(t, q, beads)
	ctx := t.Context()
	title, text := "New", "new"
	e := task.Edit{Title: &title, Text: &text, RemoveDepends: []string{"bd-a3f8"}, AddLabels: []string{"l"}}
	if _, err := edit(ctx, q, ann, "bd-1.1", e); err != nil {
		t.Fatal(err)
	}
	if _, err := retry(ctx, q, ann, "bd-1.1", ""); err != nil {
		t.Fatal(err)
	}
	finish(t, q, ann, "bd-1.1")
	if _, err := comment(ctx, q, task.Actor{Name: "eve"}, "bd-1", "third", ""); err != nil {
		t.Fatal(err)
	}
	native := create(t, q, task.Draft{Title: "native", Pool: "p", DependsOn: []string{"bd-1"}})
	all := exported(t, q)
	for id, words := range map[string][]string{
		"bd-1.1": {`"title":"New"`, `"description":"new"`, `"design":"as before"`, `"status":"closed"`, `"estimated_minutes":30`, `"labels":["l"]`, `"closed_at":`,
			`"dependencies":[{"issue_id":"bd-1.1","depends_on_id":"bd-1","type":"parent-child","created_at":"2026-01-02T03:04:05Z","created_by":"ann"},{"issue_id":"bd-1.1","depends_on_id":"bd-old"`},
		"bd-1": {`"mood":"fine"}`, `{"issue_id":"bd-1","author":"eve","text":"third"`,
			`"created_at":"2026-01-02T03:04:05.123456789-08:00"`},
		native.ID: {`"title":"native"`, `"issue_type":"task"`, `"coppice":{"pool":"p","if_dependency_fails":"wait"}`,
			`"depends_on_id":"bd-1","type":"blocks"`},
	} {
		for _, w := range words {
			if !strings.Contains(all[id], w) {
				t.Errorf("%s has no %s: %s", id, w, all[id])
			}
		}
	}
	if strings.Contains(all["bd-1.1"], "bd-a3f8") {
		t.Errorf("%s", all["bd-1.1"])
	}
	// An import into another project gives the same tasks.
	var file strings.Builder
	for _, bead := range all {
		file.WriteString(bead + "\n")
	}
	other := fresh(t)
	if got := bring(t, other, file.String()); got.Created != 6 {
		t.Errorf("%+v", got)
	}
	if again := exported(t, other); !reflect.DeepEqual(again, all) {
		t.Errorf("exported\n%v\nwant\n%v", again, all)
	}
	if got := find(t, other, native.ID); got.Pool != "p" || !slices.Equal(got.WaitsFor, []string{"bd-1"}) {
		t.Errorf("%+v", got)
	}
}

// A newer bead replaces a task. Its claim continues, and comments of both are kept.
func TestImportNewer(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	const first = `{"id":"a-1","title":"one","status":"open","updated_at":"2026-01-01T00:00:00Z","created_at":"2026-01-01T00:00:00Z","comments":[{"author":"x","text":"1","created_at":"2026-01-01T00:00:00Z"}]}`
	bring(t, q, first)
	newer := strings.NewReplacer("one", "two", `updated_at":"2026`, `updated_at":"2036`, `}]`, `},{"author":"x","text":"2","created_at":"2026-01-01T00:00:00Z"}]`).Replace(first)
	older := strings.Replace(strings.Replace(first, "one", "zero", 1), `updated_at":"2026`, `updated_at":"2025`, 1)
	if got := bring(t, q, older); got != (task.ImportReport{Unchanged: 1}) || find(t, q, "a-1").Title != "one" {
		t.Errorf("%+v", got)
	}
	begin(t, q, agent("t/a", 1))
	claim(t, q, agent("t/a", 1), task.Claiming{ID: "a-1"})
	if _, err := comment(ctx, q, agent("t/a", 1), "a-1", "mine", ""); err != nil {
		t.Fatal(err)
	}
	if got := bring(t, q, newer); got != (task.ImportReport{Updated: 1}) {
		t.Errorf("%+v", got)
	}
	d, err := q.Get(ctx, "a-1")
	var said []string
	for _, c := range d.Comments {
		said = append(said, c.Text)
	}
	if err != nil || d.Task.Title != "two" || d.Task.Status != task.InProgress || d.Task.Claim.By != "t/a" || !slices.Equal(said, []string{"1", "mine", "2"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if got := bring(t, q, newer); got != (task.ImportReport{Unchanged: 1}) {
		t.Errorf("%+v", got)
	}
	closed := strings.NewReplacer(`"open"`, `"closed"`, "2036", "2037").Replace(newer)
	if got := bring(t, q, closed); got != (task.ImportReport{Updated: 1}) {
		t.Errorf("%+v", got)
	}
	if got := find(t, q, "a-1"); got.Status != task.Closed || got.Claim != nil {
		t.Errorf("%+v", got)
	}
}

// Many comments are imported in several steps, none of which is visible on its own.
func TestImportComments(t *testing.T) {
	q := fresh(t)
	var list []string
	for i := range task.MaxComments {
		list = append(list, fmt.Sprintf(`{"author":"x","text":"%d %s","created_at":"2026-01-01T00:00:00Z"}`, i, strings.Repeat("y", 500)))
	}
	line := `{"id":"a-1","title":"one","comments":[` + strings.Join(list, ",") + `]}`
	if got := bring(t, q, line); got.Created != 1 {
		t.Errorf("%+v", got)
	}
	d, err := q.Get(t.Context(), "a-1")
	if err != nil || len(d.Comments) != task.MaxComments || !strings.HasPrefix(d.Comments[999].Text, "999 ") {
		t.Errorf("%d, %v", len(d.Comments), err)
	}
	_, err = transfer.ParseBead([]byte(strings.Replace(line, "[{", `[{"text":"more"},{`, 1)))
	wantErr(t, err, task.ErrInvalid, "1001 comments, at most 1000")
}

// A cycle with existing tasks is refused, and earlier beads stay imported.
func TestImportCycle(t *testing.T) {
	q := fresh(t)
	bring(t, q, `{"id":"a","title":"t","dependencies":[{"depends_on_id":"b"}]}`) // b does not exist and blocks nothing
	if !find(t, q, "a").Ready {
		t.Error("it waits for nothing")
	}
	b, err := transfer.ParseBead([]byte(`{"id":"b","title":"t","dependencies":[{"depends_on_id":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ok, err := transfer.ParseBead([]byte(`{"id":"c","title":"t"}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Import(t.Context(), ann, []*transfer.Bead{ok, b, ok})
	wantErr(t, err, task.ErrInvalid, "b: ", "cycle: b -> a -> b")
	if r != (task.ImportReport{Created: 1}) || find(t, q, "c").Title != "t" {
		t.Errorf("%+v", r)
	}
	bring(t, q, `{"id":"b","title":"t"}`)
	if find(t, q, "a").Ready {
		t.Error("it waits for b now")
	}
	checkIndex(t, q)
}

// An export has as many pages as needed, ordered by id.
func TestExportPages(t *testing.T) {
	q := fresh(t)
	var file strings.Builder
	const n = 2*pageTasks + 10
	for i := range n {
		fmt.Fprintf(&file, `{"id":"b-%d","title":"%d"`, i, i)
		if i%3 == 0 { // some tasks have no text
			fmt.Fprintf(&file, `,"description":"text %d"`, i)
		}
		file.WriteString("}\n")
	}
	bring(t, q, file.String())
	all := exported(t, q)
	for i := range n {
		if got := all[fmt.Sprint("b-", i)]; !strings.Contains(got, fmt.Sprintf(`"title":"%d"`, i)) || strings.Contains(got, fmt.Sprintf(`"text %d"`, i)) != (i%3 == 0) {
			t.Fatalf("%d: %s", i, got)
		}
	}
	after := ""
	for pages := 1; ; pages++ {
		p, err := q.Export(t.Context(), after)
		if err != nil || len(p.Beads) == 0 || p.Next != "" && p.Next <= after {
			t.Fatalf("page %d: %+v, %v", pages, p, err)
		}
		if after = p.Next; after == "" {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			return
		}
	}
}

// An import works in spite of store faults.
func TestImportFaults(t *testing.T) {
	inner := memory.New()
	defer inner.Close()
	q := openQueue(t, storetest.NewFaults(inner, 7, storetest.Rates{Unknown: 0.3, Conflict: 0.3}))
	defer q.Close()
	var file strings.Builder
	const n = 300
	for i := range n { // each waits for the one after it
		fmt.Fprintf(&file, `{"id":"b-%d","title":"%d","description":"text","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","dependencies":[{"issue_id":"b-%d","depends_on_id":"b-%d","type":"blocks"}]}`+"\n", i, i, i, i+1)
	}
	if got := bring(t, q, file.String()); got.Created != n {
		t.Errorf("%+v", got)
	}
	all := exported(t, q)
	for line := range strings.Lines(file.String()) {
		b, _ := transfer.ParseBead([]byte(line))
		if all[b.ID()]+"\n" != line {
			t.Errorf("exported\n%swant\n%s", all[b.ID()], line)
		}
	}
	ready, err := q.List(t.Context(), task.Filter{Ready: true}, 0, "")
	if err != nil || len(ready) != 1 || ready[0].ID != fmt.Sprint("b-", n-1) {
		t.Errorf("%d are ready, %v", len(ready), err)
	}
	checkIndex(t, q)
}

// Any file is either refused with errors for its lines, or exported as it was imported and known
// when it is imported again.
func FuzzBeads(f *testing.F) {
	f.Add([]byte(beads))
	for line := range strings.Lines(beads) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"id":"a","title":"t","comments":[{"author":"x","text":"\u0000<&>","created_at":"0001-01-01T00:00:00Z"},{}],"labels":["","l","l"],"description":"","coppice":{"pool":"p"}}`))
	f.Add([]byte(`{"id":"a","title":"t","status":"open","closed_at":"2026-01-01T00:00:00Z","close_reason":"r","dependencies":[{"depends_on_id":"b","type":"parent-child"},{"depends_on_id":"c","type":"parent-child"},{"depends_on_id":"b"}]}`))
	f.Add([]byte("{\"id\":\"a\",\"title\":\"t\"}\n{\"id\":\"b\",\"title\":\"t\",\"dependencies\":[{\"depends_on_id\":\"a\"}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := transfer.ReadPlan("f", bytes.NewReader(data), int64(len(data)), nil)
		if err != nil {
			if p, err = transfer.ReadPlan("f", bytes.NewReader(data), int64(len(data)), func(e *transfer.LineError) {
				if !errors.Is(e, task.ErrInvalid) || e.Line < 1 {
					t.Errorf("%v", e)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		s := memory.New()
		defer s.Close()
		q := openQueue(t, s)
		defer q.Close()
		want := map[string]string{}
		var file []byte
		for batch, err := range p.Batches() {
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			var all []*transfer.Bead
			for _, line := range batch {
				b, err := transfer.ParseBead(line)
				if err != nil {
					t.Fatalf("%q was right before: %v", line, err)
				}
				all = append(all, b)
				want[b.ID()] = string(line)
				file = append(append(file, bytes.TrimSpace(line)...), '\n')
			}
			if r, err := q.Import(t.Context(), ann, all); err != nil || r.Created != len(all) {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		for id, bead := range exported(t, q) {
			var a, b map[string]any
			if json.Unmarshal([]byte(bead), &a) != nil || json.Unmarshal([]byte(want[id]), &b) != nil {
				t.Fatalf("%s became %s", want[id], bead)
			}
			for _, added := range []string{"created_at", "updated_at"} { // times that are always exported
				if b[added] == nil || zeroTime(b[added]) {
					delete(a, added)
					delete(b, added)
				}
			}
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%s became %s", want[id], bead)
			}
		}
		if got := bring(t, q, string(file)); got.Created+got.Updated > 0 {
			t.Fatalf("%s: %+v", file, got)
		}
		checkIndex(t, q)
	})
}

func zeroTime(v any) bool { s, _ := v.(string); return strings.HasPrefix(s, "0001-01-01T") }
