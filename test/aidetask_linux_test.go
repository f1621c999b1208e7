package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A task that looks like an option is rejected at once.
func TestFireWithOption(t *testing.T) {
	t.Parallel()
	const bad = "--dangerously-skip-permissions"
	for command, runs := range map[string]bool{
		`["/bin/sh", "-c", "echo \"$0 $1\" > called", "{task}"]`:       false,
		`["/bin/sh", "-c", "echo \"$0 $1\" > called", "--", "{task}"]`: true,
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "Aidefile"), "")
		f := fleetIn(t, dir, "[aide]\ncommand = "+command+"\n\n[[agent]]\nname = \"mon\"\naidefile = \".\"\n")
		f.do("up", "-d")
		called := filepath.Join(dir, "called")
		if !runs {
			if out := f.wantCode(exitUsage, "fire", "mon", "--", bad); !strings.Contains(out, `write "--" right before it`) {
				t.Errorf("%s", out)
			}
			if n := f.node("t/mon"); n.Incarnation != 0 {
				t.Errorf("%+v", n)
			}
			continue
		}
		f.do("fire", "mon", "--", bad)
		eventually(t, "the call", func() bool { data, _ := os.ReadFile(called); return string(data) == "-- "+bad+"\n" })
	}
}

// A lower max_restarts applies at once, also to a pending restart.
func TestLowerMaxRestarts(t *testing.T) {
	t.Parallel()
	const policy = noRetry + "[daemon]\nbackoff = \"fixed\"\nmax_restarts = "
	a := newAidefileFleet(t, policy+"5\n", "false", `backoff_base = "5m"`)
	a.up()
	a.do("fire", "a")
	a.awaitState("t/a", "restarting")
	write(t, filepath.Join(a.home, "Aidefile"), policy+"1\n")
	a.do("reload")
	if n := a.node("t/a"); n.State != "restarting" || n.LimitMax != 1 {
		t.Errorf("one restart is within the limit: %+v", n)
	}
	write(t, filepath.Join(a.home, "Aidefile"), policy+"0\n")
	a.do("reload")
	if n := a.node("t/a"); n.State != "stopped" || n.NextAt != nil {
		t.Errorf("%+v, %+v", n, n.Aide)
	}
	a.wantRuns(1)
}
