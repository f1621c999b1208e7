package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// patientScript needs longer to end than the default of shutdown.grace.
const patientScript = `trap 'sleep 6.5; echo "it has ended" > bye.$0; exit 0' TERM; while :; do sleep 0.05; done`

// A node that leaves ends its agents as at its deadline: each in its own time, and without counting a restart. One that
// a person stops stays stopped. A signal of a person is an end like any other.
func testPlacedLeaves(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 3)
	const zone = `labels = { zone = "eu" }`
	for _, name := range []string{"patient", "stopping"} {
		m.toml += agentTOML(name, m.locks.script(name, strings.ReplaceAll(patientScript, "$0", name)), zone,
			`shutdown = { grace = "8s" }`)
	}
	m.toml += m.locked("away", calmScript, zone) + m.locked("once", calmScript, zone, `restart = "never"`) +
		m.locked("paned", calmScript, zone, `runtime = "tmux"`)
	for _, n := range m.all {
		n.rewrite(m.toml)
	}
	first, second, third := m.all[0], m.all[1], m.all[2]
	first.init()
	second.init("--label", "zone=eu")
	third.init("--label", "zone=eu")
	first.answers("up", "-d")
	second.do("up", "-d")
	lives, restarts := make(map[string]life), make(map[string]int)
	for _, name := range []string{"patient", "stopping", "away", "once", "paned"} {
		lives[name] = m.awaitLife(name, second)
		restarts[name] = first.awaitState("t/"+name, "running").Restarts
	}
	third.do("up", "-d")
	m.awaitReady(first)

	// Not the node ends these.
	for _, name := range []string{"away", "once"} {
		if err := unix.Kill(lives[name].pid, unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	first.awaitEvent(event.AgentCrashed, "t/once", 0)
	away := first.awaitEvent(event.AgentCrashed, "t/away", 0)
	if !strings.Contains(away.Message, "ended by SIGTERM; restart") {
		t.Errorf("after SIGTERM of a person: %s", away.Message)
	}
	lives["away"] = m.awaitLife("away", second)
	restarts["away"]++
	if n := first.awaitState("t/away", "running"); n.Restarts != restarts["away"] {
		t.Errorf("after SIGTERM of a person, expected %d restarts: %+v", restarts["away"], n)
	}

	stop := launch(t, first.dir, "stop", "stopping")
	first.awaitState("t/stopping", "stopping")
	second.signal(second.daemon(), unix.SIGTERM)
	for _, name := range []string{"away", "paned", "patient"} {
		l := m.awaitLife(name, third)
		if l.incarnation != lives[name].incarnation+1 {
			t.Errorf("%s was started more than once: %+v, was %+v", name, l, lives[name])
		}
		n := first.awaitState("t/"+name, "running")
		if n.Restarts != restarts[name] || n.Host != "n3" {
			t.Errorf("the node has left, expected %d restarts: %+v", restarts[name], n)
		}
	}
	stop.wantExit(0)
	for _, name := range []string{"patient", "stopping"} {
		if _, err := os.Stat(filepath.Join(second.dir, "bye."+name)); err != nil {
			t.Errorf("%s has not had its time: %v", name, err)
		}
	}
	if n := first.node("t/stopping"); n.State != "stopped" || m.lastOf("stopping") != lives["stopping"] {
		t.Errorf("stopped by a person: %+v", n)
	}
	if n := first.node("t/once"); n.State != "stopped" || m.lastOf("once") != lives["once"] {
		t.Errorf("ended before its node has left: %+v", n)
	}
	for _, name := range []string{"away", "paned", "patient"} {
		said := slices.ContainsFunc(first.printedEvents(), func(e event.Event) bool {
			return e.Path == "t/"+name && strings.Contains(e.Message, "stopped because node n2 has left the fleet")
		})
		if !said {
			t.Errorf("no event says why %s was started again", name)
		}
	}
	first.says([]string{"explain", "patient"}, "its last exit: stopped because node n2 has left the fleet")

	// The same holds for what a person stops whose daemon was killed, if another one starts before the lease has ended.
	first.do("stop", "patient")
	before := first.printedEvents()
	third.daemon().kill()
	third.says([]string{"down"}, "t/away stopped", "2 agents without a daemon, all stopped")
	third.do("up", "-d")
	for _, name := range []string{"away", "paned"} {
		lives[name] = m.awaitLife(name, third)
		if n := first.awaitState("t/"+name, "running"); n.Restarts != restarts[name] {
			t.Errorf("stopped by a person, expected %d restarts: %+v", restarts[name], n)
		}
	}
	for _, e := range first.checkEvents(before)[len(before):] {
		if e.Type == event.AgentCrashed || e.Type == event.AgentExited {
			t.Errorf("stopped by a person: %s", e.Message)
		}
	}
	first.do("down")
	m.checkDown()
}
