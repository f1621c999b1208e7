package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// A machine that was a node of a fleet runs agents without one, when it is none any more; and without etcd, up -d says
// that the daemon waits.
func TestLeftFleet(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	m := newMachines(t, c, 1)
	n := m.all[0]
	n.init()
	n.cut()
	began := time.Now()
	up := launch(t, n.dir, "up", "-d")
	up.wantExit(1)
	out := up.err.String()
	if !strings.Contains(out, "waits for the store of the fleet") || time.Since(began) > time.Minute {
		t.Errorf("without etcd up -d says after %v: %s", time.Since(began), out)
	}
	n.heal()
	m.awaitOn(n)
	n.do("down")
	m.checkDown()
	if _, err := os.Stat(filepath.Join(n.dir, ".coppice", "deadline")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, ".coppice", "node")); err != nil {
		t.Fatal(err)
	}
	n.do("up", "-d")
	m.awaitAgents(n)
	if out := n.do("status"); !strings.Contains(out, "sqlite") {
		t.Errorf("the store is not that of a single machine: %s", out)
	}
	n.do("down")
	m.checkDown()
}
