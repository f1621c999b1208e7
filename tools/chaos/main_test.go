package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/tools/chaos/internal/beliefs"
	"github.com/coppice-dev/coppice/tools/chaos/internal/fleet"
	"github.com/coppice-dev/coppice/tools/chaos/internal/orders"
	"github.com/coppice-dev/coppice/tools/chaos/internal/pipeline"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// The test binary is the agent of the fleet, too.
func TestMain(m *testing.M) {
	if isPart() {
		return
	}
	os.Exit(m.Run())
}

// The short forms of make chaos.
func TestChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	for perShim, rounds := range map[int]int{1: 5, 8: 10} {
		t.Run(fmt.Sprint(perShim), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			o := trial.Options{Coppice: coppice, Agents: 30, Crashing: 6, Program: 4, PerShim: perShim,
				Rounds: rounds, Seed: seed, Dir: t.TempDir(), Say: t.Logf}
			if err := fleet.Run(o); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBeliefChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	for _, perShim := range []int{1, 32} {
		t.Run(fmt.Sprint(perShim), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			if err := beliefs.Run(trial.Options{Coppice: coppice, Agents: 4, PerShim: perShim, Rounds: 12, Seed: seed,
				Dir: t.TempDir(), Say: t.Logf}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOrderChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := orders.Run(trial.Options{Coppice: coppice, Rounds: 10, Runs: 100, Seed: seed, Dir: t.TempDir(), Say: t.Logf}); err != nil {
		t.Error(err)
	}
}

// A backlog goes through a pipeline, once as it is and once while processes are killed. 22 tasks keep it short.
func TestPipelineChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	for name, rounds := range map[string]int{"undisturbed": 0, "killed": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := trial.Options{Coppice: coppice, Divided: 3, Rounds: rounds, Seed: seed, Dir: t.TempDir(), Say: t.Logf}
			if err := pipeline.Run(o); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
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
