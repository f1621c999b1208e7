package terminal

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// Lines break only at spaces, commands stay whole, and nothing is wrapped if the width is unknown.
func TestWrap(t *testing.T) {
	t.Parallel()
	const command = "           -> coppice logs shop/indexer-of-all-things, then coppice reset shop/indexer-of-all-things"
	const long = "needs    shop/port \x1b[31mcrash loop\x1b[0m: port 18999 is held by pid 12807 (python3), which is not of this agent"
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"daemon   not running; start it with: coppice up -d", 80, "daemon   not running; start it with: coppice up -d"},
		{command, 0, command},
		{command, 80, "           -> coppice logs shop/indexer-of-all-things, then\n           coppice reset shop/indexer-of-all-things"},
		{"daemon   not running; start it with: coppice up -d", 45, "daemon   not running; start it with:\n           coppice up -d"},
		{long, 80, "needs    shop/port \x1b[31mcrash loop\x1b[0m: port 18999 is held by pid 12807 (python3), which\n           is not of this agent"},
		{"         " + strings.Repeat("x", 40) + " y", 30, "         " + strings.Repeat("x", 40) + "\n           y"},
	} {
		if got := strings.Join(Wrap(c.line, 11, c.width), "\n"); got != c.want {
			t.Errorf("%d columns:\n%s\nwant\n%s", c.width, got, c.want)
		}
	}
	for width := 20; width < 120; width++ {
		for _, line := range []string{command, long} {
			lines := Wrap(line, 11, width)
			words := strings.Fields(strings.Join(lines, " "))
			if strings.Join(words, " ") != strings.Join(strings.Fields(line), " ") {
				t.Fatalf("%d columns: words are lost: %q", width, lines)
			}
			for _, part := range lines {
				if text := strings.TrimSpace(part); ansi.StringWidth(part) > width && strings.Contains(text, " ") && !strings.HasPrefix(text, "coppice ") {
					t.Errorf("%d columns: %q", width, part)
				}
			}
		}
	}
}
