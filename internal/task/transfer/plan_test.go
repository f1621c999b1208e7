package transfer

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// All errors of a file are reported at once, with their lines.
func TestPlanErrors(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"nothing":      {"", nil},
		"blank lines":  {"\n\n  \r\n", nil},
		"no newline":   {`{"id":"a","title":"t"}`, nil},
		"CRLF":         {"{\"id\":\"a\",\"title\":\"t\"}\r\n", nil},
		"no JSON":      {"{\"id\":\"a\",\"title\":\"t\"}\n<<<<<<< HEAD\n", []string{"f:2:1: invalid task: it is not JSON"}},
		"cut off":      {`{"id":"a","tit`, []string{"f:1:15: ", "in the middle"}},
		"two on one":   {`{"id":"a","title":"t"}{"id":"b","title":"t"}`, []string{"f:1:23: ", "something follows"}},
		"an array":     {`[]`, []string{"f:1:", "expected a JSON object"}},
		"twice":        {"{\"id\":\"a\",\"title\":\"t\"}\n{\"id\":\"a\",\"title\":\"u\"}", []string{"f:2:", "a is already in line 1"}},
		"member twice": {`{"id":"a","id":"b","title":"t"}`, []string{"f:1:16: ", `"id" appears twice`}},
		"no id":        {`{"title":"t"}`, []string{"f:1:", "is not an id"}},
		"bad id":       {`{"id":"../../x","title":"t"}`, []string{`"../../x" is not an id`}},
		"no title":     {`{"id":"a"}`, []string{"title is missing"}},
		"priority":     {`{"id":"a","title":"t","priority":"high"}`, []string{"f:1:34: ", `priority is "high", expected an integer from 0 to 4`}},
		"priority 7":   {`{"id":"a","title":"t","priority":7}`, []string{"priority is 7"}},
		"time":         {`{"id":"a","title":"t","created_at":"yesterday"}`, []string{`created_at is "yesterday", expected a time`}},
		"memory":       {`{"_type":"memory","key":"k"}`, []string{`_type is "memory"`}},
		"dependency":   {`{"id":"a","title":"t","dependencies":[{"depends_on_id":""}]}`, []string{"f:1:38: ", "dependencies[0]"}},
		"a column":     {"  {\"id\":\"a\",\"title\":\"\u00c4\",\"priority\":[]}", []string{"f:1:36: "}},
		"not UTF-8":    {"{\"id\":\"a\",\"title\":\"\xff\"}", []string{"not UTF-8"}},
		"huge": {"{\"id\":\"a\",\"title\":\"t\",\"x\":\"" + strings.Repeat("x", 3*task.MaxBead) + "\"}\n{\"id\":\"b\"}\n",
			[]string{"f:1:", "more than 1048576 bytes", "f:2:", "title is missing"}},
		"large rest": {"{\"id\":\"a\",\"title\":\"t\",\"x\":\"" + strings.Repeat("x", maxRest) + "\"}", []string{"apart from its description and comments"}},
		"itself":     {`{"id":"a","title":"t","dependencies":[{"depends_on_id":"a"}]}`, []string{"a depends on itself"}},
		"cycle": {`{"id":"a","title":"t","dependencies":[{"depends_on_id":"b","type":"blocks"}]}
{"id":"b","title":"t","dependencies":[{"depends_on_id":"c"}]}
{"id":"c","title":"t","dependencies":[{"depends_on_id":"a"}]}
{"id":"d","title":"t","dependencies":[{"depends_on_id":"a"}]}
{"id":"e","title":"t"}`, []string{"a (line 1) -> b (line 2) -> c (line 3) -> a", "f:4:", "d waits for tasks in a dependency cycle"}},
		"child that waits for its parent": {`{"id":"a","title":"t"}
{"id":"b","title":"t","dependencies":[{"depends_on_id":"a","type":"parent-child"},{"depends_on_id":"a","type":"blocks"}]}`, []string{"cycle: a (line 1) -> b (line 2) -> a"}},
		"through a task that is not there": {`{"id":"a","title":"t","dependencies":[{"depends_on_id":"b","type":"parent-child"},{"depends_on_id":"b","type":"blocks"}]}`,
			[]string{"f:1:", "cycle: a (line 1) -> b (not in the file) -> a"}},
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
			if name == "cycle" && (len(p.Order) != 1 || skipped != 2) {
				t.Errorf("%d issues, %d skipped", len(p.Order), skipped)
			}
		})
	}
}
