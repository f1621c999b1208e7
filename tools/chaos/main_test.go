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

// The short forms of make chaos.
func TestChaos(t *testing.T) {
	coppice := build(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := run(options{coppice: coppice, agents: 30, crashing: 6, rounds: 10, seed: seed, dir: t.TempDir(), say: t.Logf}); err != nil {
		t.Error(err)
	}
}

func TestBeliefChaos(t *testing.T) {
	coppice := build(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := runBeliefs(options{coppice: coppice, agents: 4, rounds: 25, seed: seed, dir: t.TempDir(), say: t.Logf}); err != nil {
		t.Error(err)
	}
}

func build(t *testing.T) (coppice string) {
	if testing.Short() {
		t.Skip("kills a daemon for some seconds")
	}
	coppice = filepath.Join(t.TempDir(), "coppice")
	if out, err := exec.Command("go", "build", "-o", coppice, "../../cmd/coppice").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return coppice
}

// The audit finds what it is there for.
func TestAudit(t *testing.T) {
	good := "start 0 0 \"\" 0\ntry 1\nack 1\ntry 2\nstart 2 4 \"2:4\" 0\ntry 3\nstart 2 4 \"2:4\" 0\ntry"
	if a, err := audit([]byte(good)); err != nil || a != (account{lives: 3, acks: 1, acknowledged: 2, tried: 2}) {
		t.Errorf("%+v, %v", a, err)
	}
	for what, bad := range map[string]string{
		"lost":     "start 0 0 \"\" 0\ntry 1\nack 1\nstart 0 0 \"\" 0\n",
		"half":     "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 0 \"1:1\" 0\n",
		"old life": "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 1 \"1:1\" 1\n",
		"refused":  "start 0 0 \"\" 0\ntry 1\nerror 1 stale\n",
	} {
		if _, err := audit([]byte(bad)); err == nil {
			t.Errorf("%s was not found", what)
		}
	}
}
