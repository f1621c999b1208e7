package transfer

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// The criterion of a task is a member of its bead. What was imported stays as it is until it is changed.
func TestCriterion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", task.MaxDoneWhen)
	bead := func(criterion string) []byte {
		return []byte(`{"id":"bd-1","title":"x","status":"open","acceptance_criteria":"` + criterion + `"}`)
	}
	for criterion, expected := range map[string]string{
		`it works`:      "it works",
		`\n it works  `: "it works",
		``:              "",
		long:            long[:task.MaxDoneWhen-4] + " ...",
	} {
		line := bead(criterion)
		b, err := ParseBead(line)
		if err != nil || b.Task().DoneWhen != expected {
			t.Fatalf("%.20q: %.20q, %v", criterion, b.Task().DoneWhen, err)
		}
		now := b.Task()
		write := func() string {
			out, err := Write(&now, nil, nil, b.Kept())
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if out := write(); !strings.Contains(out, `"acceptance_criteria":"`+criterion+`"`) {
			t.Errorf("unchanged: %.200s", out)
		}
		now.DoneWhen = "" // as an earlier version has imported it
		if out := write(); !strings.Contains(out, `"acceptance_criteria":"`+criterion+`"`) {
			t.Errorf("none: %.200s", out)
		}
		now.DoneWhen = "another"
		if out := write(); !strings.Contains(out, `"acceptance_criteria":"another"`) {
			t.Errorf("changed: %.200s", out)
		}
	}
	b, err := ParseBead([]byte(`{"id":"bd-1","title":"x","acceptance_criteria":7}`))
	if err == nil || !strings.Contains(err.Error(), "acceptance_criteria is 7, expected a text") {
		t.Errorf("%+v, %v", b, err)
	}
}
