package look

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

func TestBranches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ paths, want string }{
		{"", ""},
		{"a", "a"},
		{"a a/b", "a|└─ b"},
		{"a a/b a/b/c a/b/d a/e a/e/f", "a|├─ b|│  ├─ c|│  └─ d|└─ e|   └─ f"},
		{"a a/b a/b/c a/b/c/d a/e", "a|├─ b|│  └─ c|│     └─ d|└─ e"},
		{"a/b a/b/c", "a/b|└─ c"},
		// Nodes that no daemon returns must not panic.
		{"a a/b/c/d", "a|└─ d"},
		{"a/b/c a x/y", "a/b/c|a|y"},
	} {
		var nodes []status.Node
		for _, p := range strings.Fields(test.paths) {
			nodes = append(nodes, status.Node{Path: p})
		}
		if got := strings.Join(show.Branches(nodes), "|"); got != test.want {
			t.Errorf("%s: %q, want %q", test.paths, got, test.want)
		}
	}
}

// Colours appear only on a terminal, and not with NO_COLOR.
func TestTablePainted(t *testing.T) {
	nodes, _ := statustest.Sample().Nodes(t.Context(), "")
	for _, no := range []string{"", "1"} {
		t.Setenv("NO_COLOR", no)
		text := strings.Join(show.NodeTable(nodes, psColumns(nil), 0, 60, terminal.NewPaint(true)), "\n")
		if got, want := strings.Contains(text, "\x1b["), no == ""; got != want {
			t.Errorf("NO_COLOR=%s: %q", no, text)
		}
		if strings.Contains(text, "\x1b]") || strings.Contains(text, "\x1b[31mred") {
			t.Errorf("escape sequences of a name: %q", text)
		}
	}
}
