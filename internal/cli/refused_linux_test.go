package cli

import (
	"strings"
	"testing"
)

// A round is about the last file that was accepted. Where that is not the one
// on the disk, nobody is told that what runs is what the file says, and no more.
func TestPatrolOfRefusedFile(t *testing.T) {
	f := newFleet(t, agentTOML("a", "exec sleep 1000"))
	f.do("up", "-d")
	if out := f.do("patrol"); out != "nothing to do: what runs is what the file says\n" {
		t.Errorf("at first: %q", out)
	}
	f.edit("name = \"a\"", "name = \"a\"\ncomand = \"x\"")
	until(t, "the refusal", func() bool { return strings.Contains(f.do("status"), "was refused") })
	for _, args := range [][]string{{"patrol"}, {"patrol", "--dry-run"}, {"up", "--dry-run"}, {"patrol", "--json"}} {
		f.refused(exitConfig, args, "the file is refused, and the last one stays in force:\ncoppice.toml:", `unknown key "comand" in [[agent]]`)
	}
	f.edit("\ncomand = \"x\"", "")
	until(t, "the repair", func() bool { return !strings.Contains(f.do("status"), "was refused") })
	f.do("up", "--dry-run")
}
