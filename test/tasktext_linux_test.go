package test

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// Invalid text is rejected, not changed. A missing question is an error.
func TestTaskTexts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("worker"))
	f.do("up", "-d")
	for _, args := range [][]string{{"x\xff"}, {"x", "-l", "\xff"}, {"x", "--pool", "\xff"}, {"x", "-m", "\xff"}, {"x\ny"}, {"x\x1b[31m"}, {" "}} {
		f.wantCode(exitUsage, append([]string{"task", "add"}, args...)...)
	}
	// with returns the output of a command with this standard input.
	with := func(code int, input string, args ...string) (out, err string) {
		t.Helper()
		r := newCoppice(t, args...)
		r.Stdin = strings.NewReader(input)
		r.start(f.dir)
		r.wantExit(code)
		return r.out.String(), r.err.String()
	}
	with(exitUsage, "a\xff", "task", "add", "x", "-m", "-")
	with(exitUsage, "", "task", "add", "-")
	with(exitUsage, "a", "task", "add", "-", "-m", "b")
	with(exitUsage, strings.Repeat("x", 10<<20), "task", "add", "x", "-m", "-")
	if out := f.do("task", "ls", "--json"); out != "[]\n" {
		t.Errorf("there are tasks: %s", out)
	}
	out, _ := with(0, "The title\r\n\nthe text\nof it\n\n", "task", "add", "-")
	if d, err := task.Show.Call(t.Context(), f.client(), task.ShowRequest{ID: strings.TrimSpace(out)}); err != nil || d.Task.Title != "The title" || d.Text != "the text\nof it" {
		t.Errorf("%+v, %v", d, err)
	}
	for args, want := range map[string]string{
		"x --pool worke":  `waits for the pool "worke", which has no agents; did you mean "worker"?`,
		"x --pool build":  `waits for the pool "build", which has no agents`,
		"x -a wroker":     `is assigned to wroker, which is not an agent of this project; did you mean "worker"?`,
		"x --pool worker": "", "x -a worker": "", "x -a ann": "", "x": "",
	} {
		if _, told := with(0, "", append([]string{"task", "add"}, strings.Fields(args)...)...); !strings.Contains(told, want) || (want == "") != (told == "") {
			t.Errorf("task add %s says %q, want %q", args, told, want)
		}
	}
	if _, told := with(0, "", "task", "edit", strings.TrimSpace(out), "--pool", "build"); !strings.Contains(told, "no agents") {
		t.Errorf("%q", told)
	}
}
