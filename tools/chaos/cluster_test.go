package main

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/tools/chaos/internal/cluster"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// The short form of make chaos-cluster: the controller's node is cut off, its machine is paused, and its daemon is
// stopped.
func TestClusterChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	o := trial.Options{Coppice: coppice, Etcd: "../../" + cluster.EtcdProgram, Agents: 20, PerShim: 8, Rounds: 3, Seed: seed,
		Dir: t.TempDir(), Say: t.Logf, Slack: time.Minute, First: "cut of the controller's node"}
	if err := cluster.Run(o); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}
