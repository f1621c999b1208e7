package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// saver saves its work at a stop, which takes longer than its shell lives.
const saver = `#!/bin/sh
trap 'sleep 0.3; echo saved > "$1"; exit 0' TERM
trap '' PIPE
echo up
while :; do sleep 0.05; done
`

// Child processes of a shell can save their work when the fleet stops. Those that do not end are
// named, with and without a daemon.
func TestDownGivesTheRestItsGrace(t *testing.T) {
	t.Parallel()
	keys := "\nready = { log = \"up\" }\nshutdown = { grace = \"10m\" }\n\n"
	toml := "[[agent]]\nname = \"prefix\"\ncommand = \"FOO=bar ./w.sh prefix\"" + keys +
		"[[agent]]\nname = \"pipeline\"\ncommand = \"./w.sh pipeline | cat\"" + keys +
		agentTOML("deaf", `sh -c 'trap "" TERM; echo up; while :; do sleep 0.05; done'; :`,
			`ready = { log = "up" }`, `shutdown = { grace = "100ms" }`)
	toml += "[[agent]]\nname = \"tty\"\nterminal = true\ncommand = \"FOO=bar ./w.sh tty; echo > tty2\"" + keys
	saves := []string{"prefix", "pipeline", "tty"}
	if _, err := exec.LookPath("tmux"); err == nil {
		toml += "[[agent]]\nname = \"pane\"\nruntime = \"tmux\"\ncommand = \"FOO=bar ./w.sh pane\"" + keys
		saves = append(saves, "pane")
	}
	f := newFleet(t, toml)
	exectest.Write(t, filepath.Join(f.dir, "w.sh"), saver)
	for _, crash := range []bool{false, true} {
		f.do("up", "-d")
		if f.awaitStates("prefix running", "pipeline running", "tty running", "deaf running"); len(saves) > 3 {
			f.awaitStates("pane running")
		}
		if crash {
			f.crash()
		}
		out := f.do("down")
		if !strings.Contains(out, "t/deaf (process ") || strings.Count(out, "was killed\n") != 1 {
			t.Errorf("down says:\n%s", out)
		}
		for _, name := range saves {
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
				t.Errorf("without a daemon: %v: %s was killed while it saved its work: %v", crash, name, err)
			}
		}
		f.noProcesses()
	}
	if _, err := os.Stat(filepath.Join(f.dir, "tty2")); err == nil {
		t.Error("what comes after the agent was run")
	}
}
