package task

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/task"
)

// Children stand below their parents. What is closed with all that is below it is left out unless it is wanted.
func TestForest(t *testing.T) {
	made := func(id, parent string, status task.Status) task.Task {
		return task.Task{ID: id, Parent: parent, Status: status}
	}
	tasks := []task.Task{
		made("b", "a", task.Closed), made("c", "a", task.Open), made("a", "", task.Open), made("d", "c", task.Closed),
		made("e", "", task.Closed), made("f", "e", task.Closed), made("g", "", task.Closed), made("h", "g", task.Open),
		made("i", "gone", task.Open),
	}
	for _, tt := range []struct {
		top  string
		all  bool
		want string
	}{
		{"", false, "a|├─ b|└─ c|   └─ d|g|└─ h|i"},
		{"", true, "a|├─ b|└─ c|   └─ d|e|└─ f|g|└─ h|i"},
		{"c", false, "c|└─ d"},
		{"f", false, "f"},
	} {
		var lines []string
		for _, b := range forest(tasks, tt.top, tt.all) {
			lines = append(lines, b.indent+b.ID)
		}
		if got := strings.Join(lines, "|"); got != tt.want {
			t.Errorf("%q, %v: %s, want %s", tt.top, tt.all, got, tt.want)
		}
	}
}
