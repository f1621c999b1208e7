package agentcli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// The table in docs/models.md says what follows from each obstacle.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[outcome.ObstacleKind]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z ]+): .* \| ([a-z]+) \| ([a-z]+) \| (yes|no) \|$`).FindAllStringSubmatch(string(page), -1) {
		o := outcome.ObstacleKind(strings.ReplaceAll(m[1], " ", "_"))
		seen[o] = true
		c := consequenceOf(o)
		if string(c.kind) != m[2] || string(c.next) != m[3] || c.crash != (m[4] == "yes") {
			t.Errorf("%s: %+v, the page says %q", o, c, m[2:])
		}
	}
	for _, cli := range Callable() {
		for _, r := range rules(cli, "") {
			if !seen[r.is] {
				t.Errorf("a rule of %s has the obstacle %q, which the page does not explain", cli, r.is)
			}
		}
	}
	for _, o := range []outcome.ObstacleKind{outcome.Crash, outcome.Timeout, outcome.PermissionDenied, outcome.Budget} {
		if !seen[o] {
			t.Errorf("the page does not explain %q", o)
		}
	}
}

// The table in docs/aidefile.md has the command of each command line.
func TestCommandDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/aidefile.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cli := range Callable() {
		row := "| `" + string(cli) + "` | `" + strings.Join(Command(cli), " ") + "` |\n"
		if cli != Plain && !strings.Contains(string(page), row) {
			t.Errorf("the page has no %q", row)
		}
	}
}
