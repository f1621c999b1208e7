package task

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
)

// beads is a file with all that there is in one.
const beads = `{"id":"bd-1","title":"Epic","description":"all\nof <it> & \"more\"","status":"open","priority":1,"issue_type":"epic","created_at":"2026-01-02T03:04:05.123456789-08:00","updated_at":"2026-01-02T03:04:05.5-08:00","labels":["b","a"],"comments":[{"id":7,"issue_id":"bd-1","author":"ann","text":"first","created_at":"2026-01-02T03:04:06Z","mood":"fine"},{"id":8,"issue_id":"bd-1","author":"bob","text":"","created_at":"2026-01-02T03:04:07Z"}]}
{"id":"bd-1.1","title":"Child","description":"","design":"as before","acceptance_criteria":"it works","notes":"n","status":"in_progress","priority":0,"issue_type":"bug","assignee":"ann","estimated_minutes":30,"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","external_ref":"gh-9","dependencies":[{"issue_id":"bd-1.1","depends_on_id":"bd-1","type":"parent-child","created_at":"2026-01-02T03:04:05Z","created_by":"ann"},{"issue_id":"bd-1.1","depends_on_id":"bd-a3f8","type":"blocks","created_at":"2026-01-02T03:04:05Z","created_by":"ann","metadata":"{}"},{"issue_id":"bd-1.1","depends_on_id":"bd-old","type":"discovered-from","created_at":"2026-01-02T03:04:05Z","created_by":"ann"}]}

{"_type":"issue","id":"bd-a3f8","title":"Done","description":null,"status":"closed","priority":4,"issue_type":"chore","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T04:04:05Z","closed_at":"2026-01-02T04:04:05Z","close_reason":"merged","labels":[],"comments":[],"compaction_level":1,"new_field":{"z":1,"a":[1.50,"x"]}}
{"id":"bd-gone","title":"Gone","status":"tombstone","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T04:04:05Z","deleted_at":"2026-01-02T04:04:05Z","deleted_by":"ann"}
{"id":"bd-hook","title":"Hooked","status":"hooked","priority":2,"issue_type":"task","created_at":"2026-01-02T03:04:05Z","defer_until":"2030-01-01T00:00:00Z"}
`

// plan reads a file of beads.
func plan(t fataler, text string) *Plan {
	t.Helper()
	p, err := ReadPlan("f", strings.NewReader(text), int64(len(text)), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

// bring imports a file of beads.
func bring(t fataler, q *Queue, text string) (sum ImportReport) {
	t.Helper()
	for batch, err := range plan(t, text).Batches() {
		if err != nil {
			t.Fatalf("%v", err)
		}
		var all []*Bead
		for _, line := range batch {
			b, err := ParseBead(line)
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

// exported are all tasks as beads, by their ids.
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

// What an import has brought is exported as it came, letter by letter.
func TestRoundTrip(t *testing.T) {
	q := fresh(t)
	if got := bring(t, q, beads); got != (ImportReport{Created: 5}) {
		t.Errorf("%+v", got)
	}
	compare := func() {
		t.Helper()
		got := exported(t, q)
		for line := range strings.Lines(beads) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			b, err := ParseBead([]byte(line))
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
	if got := bring(t, q, beads); got != (ImportReport{Unchanged: 5}) {
		t.Errorf("%+v", got)
	}
	compare()
	epic, err := q.Get(t.Context(), "bd-1")
	if err != nil || epic.Text != "all\nof <it> & \"more\"" || epic.Task.Ready || !slices.Equal(epic.Task.WaitsFor, []string{"bd-1.1"}) ||
		!slices.Equal(epic.Task.Labels, []string{"a", "b"}) || len(epic.Comments) != 2 || epic.Comments[0].Text != "first" || epic.Comments[1].By != "bob" {
		t.Errorf("%+v, %v", epic, err)
	}
	child := find(t, q, "bd-1.1")
	if child.Parent != "bd-1" || !slices.Equal(child.DependsOn, []string{"bd-a3f8"}) || !reflect.DeepEqual(child.Links, []Link{{Type: "discovered-from", ID: "bd-old"}}) ||
		child.Status != InProgress || child.Assignee != "ann" || child.Claim != nil {
		t.Errorf("%+v", child)
	}
	if done := find(t, q, "bd-a3f8"); done.Status != Closed || done.Outcome != Completed || done.Reason != "merged" {
		t.Errorf("%+v", done)
	}
	if gone := find(t, q, "bd-gone"); gone.Status != Closed || gone.Outcome != Cancelled {
		t.Errorf("%+v", gone)
	}
	if hooked := find(t, q, "bd-hook"); hooked.Status != Blocked {
		t.Errorf("%+v", hooked)
	}
}

// What holds a bead up holds its task up; what no task can stand for blocks it until somebody looks.
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
			task := find(t, q, "b")
			got := string(task.Status)
			switch {
			case task.Ready:
				got += ", ready"
			case len(task.WaitsFor) > 0:
				got += fmt.Sprintf(", waits for %v", task.WaitsFor)
			}
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := exported(t, q)["b"]; got != line {
				t.Errorf("exported\n%s\nwant\n%s", got, line)
			}
			title := "other"
			if _, err := q.Edit(t.Context(), ann, "b", Edit{Title: &title, AddLabels: []string{"l"}}); err != nil {
				t.Fatal(err)
			}
			if got := exported(t, q)["b"]; !strings.Contains(got, members) {
				t.Errorf("after an edit: %s", got)
			}
		})
	}
	if _, err := ParseBead([]byte(`{"id":"b","title":"B","dependencies":[{"depends_on_id":"external:\u001b"}]}`)); err == nil {
		t.Error("an id with a control character is taken")
	}
}

// The text of an imported task is what it was edited to, nothing included, until a newer bead comes.
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
				if _, err := q.Edit(t.Context(), ann, "bd-1", Edit{Text: &text}); err != nil {
					t.Fatal(err)
				}
				want(text)
			}
			bring(t, q, `{"id":"bd-1","title":"Epic","description":"newer","updated_at":"2126-01-02T03:04:05Z"}`)
			want("newer")
		})
	}
}

// What was changed is exported as it is now, and all else as it came.
func TestExportChanged(t *testing.T) {
	q := fresh(t)
	bring(t, q, beads)
	ctx := t.Context()
	title, text := "New", "new"
	if _, err := q.Edit(ctx, ann, "bd-1.1", Edit{Title: &title, Text: &text, RemoveDepends: []string{"bd-a3f8"}, AddLabels: []string{"l"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Retry(ctx, ann, "bd-1.1", ""); err != nil {
		t.Fatal(err)
	}
	finish(t, q, ann, "bd-1.1")
	if _, err := q.Comment(ctx, Who{Name: "eve"}, "bd-1", "third", ""); err != nil {
		t.Fatal(err)
	}
	native := create(t, q, Draft{Title: "native", Pool: "p", DependsOn: []string{"bd-1"}})
	all := exported(t, q)
	for id, words := range map[string][]string{
		"bd-1.1": {`"title":"New"`, `"description":"new"`, `"design":"as before"`, `"status":"closed"`, `"estimated_minutes":30`, `"labels":["l"]`, `"closed_at":`,
			`"dependencies":[{"issue_id":"bd-1.1","depends_on_id":"bd-1","type":"parent-child","created_at":"2026-01-02T03:04:05Z","created_by":"ann"},{"issue_id":"bd-1.1","depends_on_id":"bd-old"`},
		"bd-1":    {`"mood":"fine"}`, `{"issue_id":"bd-1","author":"eve","text":"third"`, `"created_at":"2026-01-02T03:04:05.123456789-08:00"`},
		native.ID: {`"title":"native"`, `"issue_type":"task"`, `"coppice":{"pool":"p"}`, `"depends_on_id":"bd-1","type":"blocks"`},
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
	// Another project gets all of it, and has the same.
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

// A task is replaced by what is newer; who does it goes on, and comments of both are kept.
func TestImportNewer(t *testing.T) {
	q := fresh(t)
	ctx := t.Context()
	const first = `{"id":"a-1","title":"one","status":"open","updated_at":"2026-01-01T00:00:00Z","created_at":"2026-01-01T00:00:00Z","comments":[{"author":"x","text":"1","created_at":"2026-01-01T00:00:00Z"}]}`
	bring(t, q, first)
	newer := strings.NewReplacer("one", "two", `updated_at":"2026`, `updated_at":"2036`, `}]`, `},{"author":"x","text":"2","created_at":"2026-01-01T00:00:00Z"}]`).Replace(first)
	older := strings.Replace(strings.Replace(first, "one", "zero", 1), `updated_at":"2026`, `updated_at":"2025`, 1)
	if got := bring(t, q, older); got != (ImportReport{Unchanged: 1}) || find(t, q, "a-1").Title != "one" {
		t.Errorf("%+v", got)
	}
	begin(t, q, agent("t/a", 1))
	claim(t, q, agent("t/a", 1), Claiming{ID: "a-1"})
	if _, err := q.Comment(ctx, agent("t/a", 1), "a-1", "mine", ""); err != nil {
		t.Fatal(err)
	}
	if got := bring(t, q, newer); got != (ImportReport{Updated: 1}) {
		t.Errorf("%+v", got)
	}
	d, err := q.Get(ctx, "a-1")
	var said []string
	for _, c := range d.Comments {
		said = append(said, c.Text)
	}
	if err != nil || d.Task.Title != "two" || d.Task.Status != InProgress || d.Task.Claim.By != "t/a" || !slices.Equal(said, []string{"1", "mine", "2"}) {
		t.Errorf("%+v, %v", d, err)
	}
	if got := bring(t, q, newer); got != (ImportReport{Unchanged: 1}) {
		t.Errorf("%+v", got)
	}
	closed := strings.NewReplacer(`"open"`, `"closed"`, "2036", "2037").Replace(newer)
	if got := bring(t, q, closed); got != (ImportReport{Updated: 1}) {
		t.Errorf("%+v", got)
	}
	if got := find(t, q, "a-1"); got.Status != Closed || got.Claim != nil {
		t.Errorf("%+v", got)
	}
}

// Many comments are brought in several steps, of which nobody sees a part.
func TestImportComments(t *testing.T) {
	q := fresh(t)
	var list []string
	for i := range MaxComments {
		list = append(list, fmt.Sprintf(`{"author":"x","text":"%d %s","created_at":"2026-01-01T00:00:00Z"}`, i, strings.Repeat("y", 500)))
	}
	line := `{"id":"a-1","title":"one","comments":[` + strings.Join(list, ",") + `]}`
	if got := bring(t, q, line); got.Created != 1 {
		t.Errorf("%+v", got)
	}
	d, err := q.Get(t.Context(), "a-1")
	if err != nil || len(d.Comments) != MaxComments || !strings.HasPrefix(d.Comments[999].Text, "999 ") {
		t.Errorf("%d, %v", len(d.Comments), err)
	}
	_, err = ParseBead([]byte(strings.Replace(line, "[{", `[{"text":"more"},{`, 1)))
	wantErr(t, err, ErrInvalid, "1001 comments, at most 1000")
}

// What is wrong is named by its line, all of it at once.
func TestPlanErrors(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"nothing":      {"", nil},
		"blank lines":  {"\n\n  \r\n", nil},
		"no newline":   {`{"id":"a","title":"t"}`, nil},
		"CRLF":         {"{\"id\":\"a\",\"title\":\"t\"}\r\n", nil},
		"no JSON":      {"{\"id\":\"a\",\"title\":\"t\"}\n<<<<<<< HEAD\n", []string{"f:2:1: invalid task: it is no JSON"}},
		"cut off":      {`{"id":"a","tit`, []string{"f:1:15: ", "in the middle"}},
		"two on one":   {`{"id":"a","title":"t"}{"id":"b","title":"t"}`, []string{"f:1:23: ", "something follows"}},
		"an array":     {`[]`, []string{"f:1:", "expected a JSON object"}},
		"twice":        {"{\"id\":\"a\",\"title\":\"t\"}\n{\"id\":\"a\",\"title\":\"u\"}", []string{"f:2:", "a is in line 1 already"}},
		"member twice": {`{"id":"a","id":"b","title":"t"}`, []string{"f:1:16: ", `"id" is in it twice`}},
		"no id":        {`{"title":"t"}`, []string{"f:1:", "no id"}},
		"bad id":       {`{"id":"../../x","title":"t"}`, []string{`"../../x" is no id`}},
		"no title":     {`{"id":"a"}`, []string{"title is missing"}},
		"priority":     {`{"id":"a","title":"t","priority":"high"}`, []string{"f:1:34: ", `priority is "high", expected an integer from 0 to 4`}},
		"priority 7":   {`{"id":"a","title":"t","priority":7}`, []string{"priority is 7"}},
		"time":         {`{"id":"a","title":"t","created_at":"yesterday"}`, []string{`created_at is "yesterday", expected a time`}},
		"memory":       {`{"_type":"memory","key":"k"}`, []string{`_type is "memory"`}},
		"dependency":   {`{"id":"a","title":"t","dependencies":[{"depends_on_id":""}]}`, []string{"f:1:38: ", "dependencies[0]"}},
		"a column":     {"  {\"id\":\"a\",\"title\":\"\u00c4\",\"priority\":[]}", []string{"f:1:36: "}},
		"not UTF-8":    {"{\"id\":\"a\",\"title\":\"\xff\"}", []string{"not UTF-8"}},
		"huge": {"{\"id\":\"a\",\"title\":\"t\",\"x\":\"" + strings.Repeat("x", 3*MaxBead) + "\"}\n{\"id\":\"b\"}\n",
			[]string{"f:1:", "more than 1048576 bytes", "f:2:", "title is missing"}},
		"large rest": {"{\"id\":\"a\",\"title\":\"t\",\"x\":\"" + strings.Repeat("x", maxRest) + "\"}", []string{"beside its description and comments"}},
		"itself":     {`{"id":"a","title":"t","dependencies":[{"depends_on_id":"a"}]}`, []string{"a depends on itself"}},
		"circle": {`{"id":"a","title":"t","dependencies":[{"depends_on_id":"b","type":"blocks"}]}
{"id":"b","title":"t","dependencies":[{"depends_on_id":"c"}]}
{"id":"c","title":"t","dependencies":[{"depends_on_id":"a"}]}
{"id":"d","title":"t","dependencies":[{"depends_on_id":"a"}]}
{"id":"e","title":"t"}`, []string{"a (line 1) -> b (line 2) -> c (line 3) -> a", "f:4:", "d waits for tasks that wait for each other"}},
		"child that waits for its parent": {`{"id":"a","title":"t"}
{"id":"b","title":"t","dependencies":[{"depends_on_id":"a","type":"parent-child"},{"depends_on_id":"a","type":"blocks"}]}`, []string{"circle: a (line 1) -> b (line 2) -> a"}},
		"through a task that is not there": {`{"id":"a","title":"t","dependencies":[{"depends_on_id":"b","type":"parent-child"},{"depends_on_id":"b","type":"blocks"}]}`,
			[]string{"f:1:", "circle: a (line 1) -> b (not in the file) -> a"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadPlan("f", strings.NewReader(test.file), int64(len(test.file)), nil)
			if (err == nil) != (test.want == nil) {
				t.Fatalf("%v", err)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v does not say %q", err, w)
				}
			}
			skipped := 0
			p, err := ReadPlan("f", strings.NewReader(test.file), int64(len(test.file)), func(e *LineError) { skipped++ })
			if err != nil || (skipped > 0) != (test.want != nil) {
				t.Fatalf("%v, %d skipped", err, skipped)
			}
			if name == "circle" && (len(p.Order) != 1 || skipped != 2) {
				t.Errorf("%d issues, %d skipped", len(p.Order), skipped)
			}
		})
	}
}

// A circle with what is here already is refused, and what was before it stays.
func TestImportCircle(t *testing.T) {
	q := fresh(t)
	bring(t, q, `{"id":"a","title":"t","dependencies":[{"depends_on_id":"b"}]}`) // there is no b yet, which holds nothing up
	if !find(t, q, "a").Ready {
		t.Error("it waits for nothing")
	}
	b, err := ParseBead([]byte(`{"id":"b","title":"t","dependencies":[{"depends_on_id":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ok, err := ParseBead([]byte(`{"id":"c","title":"t"}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Import(t.Context(), ann, []*Bead{ok, b, ok})
	wantErr(t, err, ErrInvalid, "b: ", "circle: b -> a -> b")
	if r != (ImportReport{Created: 1}) || find(t, q, "c").Title != "t" {
		t.Errorf("%+v", r)
	}
	bring(t, q, `{"id":"b","title":"t"}`)
	if find(t, q, "a").Ready {
		t.Error("it waits for b now")
	}
	checkIndex(t, q)
}

// More tasks than a page has are exported in several, in the order of their ids.
func TestExportPages(t *testing.T) {
	q := fresh(t)
	var file strings.Builder
	const n = 2*pageTasks + 10
	for i := range n {
		fmt.Fprintf(&file, `{"id":"b-%d","title":"%d"`, i, i)
		if i%3 == 0 { // there are not always texts
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

// An import under faults does the same.
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
		b, _ := ParseBead([]byte(line))
		if all[b.ID()]+"\n" != line {
			t.Errorf("exported\n%swant\n%s", all[b.ID()], line)
		}
	}
	ready, err := q.List(t.Context(), Filter{Ready: true})
	if err != nil || len(ready) != 1 || ready[0].ID != fmt.Sprint("b-", n-1) {
		t.Errorf("%d are ready, %v", len(ready), err)
	}
	checkIndex(t, q)
}

// Whatever a file has in it: it is refused by its lines, or what is imported
// comes back the same, and is known when it comes once more.
func FuzzBeads(f *testing.F) {
	f.Add([]byte(beads))
	for line := range strings.Lines(beads) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"id":"a","title":"t","comments":[{"author":"x","text":"\u0000<&>","created_at":"0001-01-01T00:00:00Z"},{}],"labels":["","l","l"],"description":"","coppice":{"pool":"p"}}`))
	f.Add([]byte(`{"id":"a","title":"t","status":"open","closed_at":"2026-01-01T00:00:00Z","close_reason":"r","dependencies":[{"depends_on_id":"b","type":"parent-child"},{"depends_on_id":"c","type":"parent-child"},{"depends_on_id":"b"}]}`))
	f.Add([]byte("{\"id\":\"a\",\"title\":\"t\"}\n{\"id\":\"b\",\"title\":\"t\",\"dependencies\":[{\"depends_on_id\":\"a\"}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ReadPlan("f", bytes.NewReader(data), int64(len(data)), nil)
		if err != nil {
			if p, err = ReadPlan("f", bytes.NewReader(data), int64(len(data)), func(e *LineError) {
				if !errors.Is(e, ErrInvalid) || e.Line < 1 {
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
			var all []*Bead
			for _, line := range batch {
				b, err := ParseBead(line)
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
			for _, added := range []string{"created_at", "updated_at"} { // times there must be
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
