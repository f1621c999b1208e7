package aidefile

import (
	"slices"
	"strings"
	"testing"
)

// The value of a placeholder never becomes an option of the command.
func TestArguments(t *testing.T) {
	const bad = "--dangerously-skip-permissions"
	for _, tt := range []struct {
		command []string
		task    string
		want    []string // nil: it is refused
	}{
		{[]string{"claude", "-p", "{task}"}, "do it", []string{"claude", "-p", "do it"}},
		{[]string{"claude", "-p", "{task}"}, bad, nil},
		{[]string{"claude", "-p", "{task}"}, "-x", nil},
		{[]string{"claude", "-p", "{task} please"}, bad, nil},
		{[]string{"claude", "-p", "{none}{task}"}, bad, nil},
		{[]string{"claude", "--prompt", "{task}"}, bad, nil},
		{[]string{"claude", "-p", "--", "{task}"}, bad, []string{"claude", "-p", "--", bad}},
		{[]string{"claude", "-p", "{task}", "--"}, bad, nil},
		{[]string{"timeout", "--", "60", "claude", "-p", "{task}"}, bad, nil}, // the wrapper's
		{[]string{"nice", "--", "claude", "{task}"}, bad, nil},
		{[]string{"claude", "--", "{none}", "{task}"}, bad, []string{"claude", "--", "", bad}},
		{[]string{"claude", "--prompt={task}"}, bad, []string{"claude", "--prompt=" + bad}},
		{[]string{"claude", "Task: {task}"}, bad, []string{"claude", "Task: " + bad}},
		{[]string{"claude", "-p"}, bad, []string{"claude", "-p"}},
		{[]string{"claude", "{task}"}, "{none}", []string{"claude", "{none}"}},
		{[]string{"claude", "{task}"}, "a\x00b", []string{"claude", "ab"}},
	} {
		got, err := Settings{Command: tt.command}.Arguments(map[string]string{"task": tt.task, "none": ""})
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.want == nil) {
			t.Errorf("%q with %q: %q, %v, want %q", tt.command, tt.task, got, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), `write "--" right before it`) {
			t.Errorf("%v", err)
		}
	}
}
