package test

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// On a full disk, up starts what it can, reports that, and recovers when there is space.
func TestUpOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(f *fleet){
		"first": func(*fleet) {},
		"later": func(f *fleet) {
			f.do("up", "-d")
			f.do("belief", "set", "a", "x=5")
			f.do("down")
		},
		"killed": func(f *fleet) {
			f.do("up", "-d")
			f.do("belief", "set", "a", "x=5")
			f.crash()
			f.do("down")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := mountedFleet(t, "8m", agentTOML("a", sleeper)+remembers, agentTOML("b", `exec sleep 1001`, quick, "max_restarts = 100"))
			before(f)
			room := fillDisk(t, f.dir)
			if out := f.do("up", "-d"); !strings.Contains(out, "2 of 2 agents running") || !strings.Contains(out, "state cannot be kept: ") || !strings.Contains(out, "no space left") {
				t.Errorf("up: %s", out)
			}
			if s := f.status(); s.Store.OK || !strings.Contains(s.Store.Error, "no space left") {
				t.Errorf("status: %+v", s.Store)
			}
			c := f.client()
			f.crashAgent(c, "t/b")
			if out, err := f.try("belief", "set", "a", "x=6"); err == nil || !strings.Contains(out, "no space left") {
				t.Errorf("set: %v: %s", err, out)
			}
			if name != "first" {
				if x := f.belief("a", "x"); !strings.Contains(x, "5") {
					t.Errorf("x is %q", x)
				}
			}
			last := currentNode(t, c, "t/b")
			room()
			eventually(t, "recovery", func() bool { return f.status().Store.OK })
			f.awaitLogged("t/b", last.Incarnation)
			told, _ := f.history()
			if told["store.degraded  0"] != 1 || told["store.recovered  0"] != 1 || told["store.restored  0"] != 0 {
				t.Errorf("told: %v", told)
			}
			f.do("belief", "set", "a", "x=6")
			a := currentNode(t, c, "t/a")
			f.crash()
			f.do("up", "-d")
			if got := currentNode(t, c, "t/a"); got.PID != a.PID {
				t.Errorf("a: %+v, before %+v", got, a)
			}
			if x := f.belief("a", "x"); !strings.Contains(x, "6") {
				t.Errorf("x is %q", x)
			}
		})
	}
}

// On a full disk the agents of a node of a fleet go on, as its lease does.
func testFleetOnFullDisk(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 0)
	n := m.addIn(mount(t, "8m"))
	m.start()
	before := m.last()
	room := fillDisk(t, n.dir)
	began := time.Now()
	await(t, moved, func() string {
		m.unchanged(before)
		if time.Since(began) < leaseTTL+stopGrace+3*time.Second && !t.Failed() {
			return "the lease of before may not have ended yet"
		}
		return ""
	})
	n.do("stop", "calm")
	n.do("start", "calm")
	m.awaitAgents(n)
	room()
	n.do("down")
	m.checkDown()
}
