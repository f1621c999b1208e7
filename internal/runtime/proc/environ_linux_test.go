package proc

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// The environment of a process that executes another program is empty for a moment. A sweep that takes
// that for an answer leaves the process behind.
func TestEnvironDuringExec(t *testing.T) {
	const entry = "EXEC_TEST=yes"
	script := filepath.Join(t.TempDir(), "again")
	exectest.Write(t, script, "#!/bin/sh\nexec \"$0\"\n")
	p, _ := start(t, Command{Argv: []string{script}, Env: []string{entry}})
	for i := range 5000 {
		env, err := readEnviron(p.PID())
		if err != nil || !slices.Contains(slices.Collect(env), entry) {
			t.Fatalf("read %d: it has no environment, %v", i, err)
		}
	}
	p.Kill()
	<-p.Done()
}
