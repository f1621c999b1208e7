package test

import (
	"strings"
	"testing"
)

// An agent that waits for its trigger has not failed, and is not about to start.
func TestAidefileIdle(t *testing.T) {
	t.Parallel()
	a := newAidefileFleet(t, "[trigger]\non = \"cron:0 4 1 1 *\"\n", `true`)
	if out := a.do("up", "--dry-run"); out != "nothing to do: what runs is what the file says\n" {
		t.Errorf("a dry run: %q", out)
	}
	if out := a.do("up", "-d"); !strings.Contains(out, "t is up: 0 of 1 agent running, 1 waiting for a trigger, process ") {
		t.Errorf("up: %q", out)
	}
	if out := a.do("status"); !strings.Contains(out, "1: 1 idle\n") {
		t.Errorf("status: %s", out)
	}
}
