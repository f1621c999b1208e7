package test

import (
	"strings"
	"testing"
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
