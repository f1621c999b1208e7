package pipeline

import (
	"strings"
	"testing"
)

// The backlog is that of the first batch. What an attempt does depends on what its prompt tells of the task itself.
func TestBacklog(t *testing.T) {
	t.Parallel()
	b := newBacklog(21)
	divided := 0
	for _, e := range b {
		if len(script(e.kind())) == 0 {
			t.Errorf("%q has no script", e.title)
		}
		if e.kind() == "divide" {
			divided++
		}
	}
	if len(b) != 34 || divided != 21 {
		t.Errorf("%d tasks, %d of them divided", len(b), divided)
	}
	files := b.lastFiles()
	if files[meetingFile] != "words: left right\n" || files["good.txt"] != "old\n" ||
		files["d07-2.txt"] != "old\nnew\n" {
		t.Errorf("%q", files)
	}
	for prompt, want := range map[string]int{
		"": 0, "# What has failed before\na file is bad": 1, "\n# What has failed in other tasks\na file is bad": 0,
	} {
		if _, n := current("fail", prompt); n != want {
			t.Errorf("%q: act %d, expected %d", prompt, n, want)
		}
	}
	if a, n := current("clash", strings.Repeat("conflicts with the branch ", 2)); n != 1 || a != completes {
		t.Errorf("%+v, %d", a, n)
	}
}
