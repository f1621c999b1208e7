package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The output of instances that a pool needs no longer is shown, with a daemon and without, and an instance that comes
// back goes on with its log.
func TestLogsOfRemoved(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("w", `echo "up $COPPICE_AGENT $COPPICE_INCARNATION"; exec sleep 1000`,
		"[agent.pool]\nmax = 2\ncheck = \"cat n\"\ndrain_timeout = \"100ms\"\n"),
		"[daemon]\npatrol_interval = \"50ms\"\n")
	want := func(n string) { write(t, filepath.Join(dir, "n"), n) }
	want("2")
	f := fleetOf(t, dir)
	f.up()
	shows := func(args ...string) string {
		t.Helper()
		out, err := f.try(append([]string{"logs"}, args...)...)
		if err != nil {
			t.Errorf("logs %q: %v: %s", args, err, out)
		}
		return out
	}
	eventually(t, "both", func() bool {
		out := shows()
		return strings.Contains(out, "up t/w/w-1 1\n") && strings.Contains(out, "up t/w/w-2 1\n")
	})
	want("0")
	eventually(t, "that both are gone", func() bool {
		entries, _ := os.ReadDir(filepath.Join(dir, ".coppice", "run-removed"))
		return len(entries) == 2
	})
	check := func() {
		t.Helper()
		for _, args := range []string{"", "w", "t/w", "-n 5 t"} {
			out := shows(strings.Fields(args)...)
			for _, path := range []string{"t/w/w-1", "t/w/w-2"} {
				if !strings.Contains(out, path+" | up "+path+" 1\n") {
					t.Errorf("logs %s: %s", args, out)
				}
			}
		}
		for _, path := range []string{"t/w/w-2", "w/w-2", "w-2"} {
			if out := shows(path); !strings.HasSuffix(out, "up t/w/w-2 1\n") || strings.Contains(out, "|") {
				t.Errorf("logs %s: %q", path, out)
			}
		}
		if out, err := f.try("logs", "t/w/w-3"); err == nil || !strings.Contains(out, "t/w/w-3: no such node") {
			t.Errorf("%v: %s", err, out)
		}
	}
	check()
	f.do("down")
	check()
	want("1")
	f.up()
	eventually(t, "the log of both incarnations", func() bool {
		return strings.Contains(shows("w-1"), "up t/w/w-1 1\n") && strings.Contains(shows("w-1"), "up t/w/w-1 2\n")
	})
	if out := shows("w-1", "--json"); !strings.Contains(out, `"incarnation":1`) {
		t.Error(out)
	}
}
