package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The test binary is the agent of the fleet, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		agent(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// The short form of make chaos.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a daemon for some seconds")
	}
	coppice := filepath.Join(t.TempDir(), "coppice")
	if out, err := exec.Command("go", "build", "-o", coppice, "../../cmd/coppice").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := run(options{coppice: coppice, agents: 30, crashing: 6, rounds: 10, seed: seed, dir: t.TempDir(), say: t.Logf}); err != nil {
		t.Error(err)
	}
}
