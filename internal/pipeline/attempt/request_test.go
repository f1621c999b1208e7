package attempt

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/task"
)

func TestLookAgain(t *testing.T) {
	t.Parallel()
	for open, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Minute, 0: time.Minute, time.Hour: time.Hour, 48 * time.Hour: 4 * time.Hour,
	} {
		if got := LookAgain(open); got != want {
			t.Errorf("%v: %v", open, got)
		}
	}
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		task.Comment
		want bool
	}{
		"a person": {task.Comment{By: "ann", At: began.Add(1), Text: "no"}, true},
		"earlier":  {task.Comment{By: "ann", At: began, Text: "no"}, false},
		"approved": {task.Comment{By: "ann", At: began.Add(1), Text: " Approve: yes"}, false},
		"an agent": {task.Comment{By: "a", Incarnation: 1, At: began.Add(1), Text: "no"}, false},
		"daemon":   {task.Comment{By: controller, At: began.Add(1), Text: "no"}, false},
	} {
		if got := Feedback(task.Detail{Comments: []task.Comment{c.Comment}}, began); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What a model has written cannot leave its block of code.
func TestRequestBody(t *testing.T) {
	t.Parallel()
	got := RequestBody("Fixes #1 @ann\n````\n![x](https://x)\x1b[0m", []string{"look `here`"})
	want := "`````text\nFixes #1 @ann\n````\n![x](https://x)\n`````\n\nLook at:\n\n```text\nlook `here`\n```\n"
	if got != want {
		t.Errorf("%q", got)
	}
	if n := len(RequestBody(strings.Repeat("`x", 1<<20), nil)); n > maxBody+100 {
		t.Errorf("%d bytes", n)
	}
}
