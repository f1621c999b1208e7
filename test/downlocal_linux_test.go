package test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// localDown has the output of coppice down --local --json.
type localDown struct {
	Node       string
	Controller bool
	WasUp      bool `json:"was_up"`
	Starting   bool
	NoTaker    string `json:"no_taker"`
}

// downLocal ends the daemon of a machine, and returns the JSON of that.
func (n *machine) downLocal() (end localDown) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(n.printed("down", "--local", "--json")), &end); err != nil {
		n.t.Fatal(err)
	}
	return end
}

// A daemon that waits for the store when it starts is ended like any other, with the agents that an earlier one has
// left. Agents cannot do that.
func testFleetEndedWhileStarting(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 1)
	n := m.all[0]
	n.rewrite(m.toml, shellTOML("shell"))
	if err := unix.Mkfifo(n.dir+"/shell.fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	m.start()
	n.awaitState("t/shell", "running")
	n.cut()
	n.daemon().kill()
	waiting := launch(t, n.dir, "up")
	await(t, waitTimeout, func() string {
		if out, err := n.answers("ps"); err == nil || !strings.Contains(out, "has not reached the store yet") {
			return out
		}
		return ""
	})
	for _, command := range []string{"coppice down --local", `env -i PATH="$PATH" coppice down --local`} {
		if out, code := n.inAgent("shell", command); code != exitAuth {
			t.Errorf("an agent ends a daemon that starts: exit code %d: %s", code, out)
		}
	}
	end := n.downLocal()
	if !end.WasUp || !end.Starting || !strings.Contains(end.NoTaker, "has not reached the store yet") {
		t.Errorf("%+v", end)
	}
	waiting.wantExit(0)
	n.checkEnded()

	waiting = launch(t, n.dir, "up")
	waiting.err.awaitText(t, "waiting for the store of the fleet")
	n.wantFailure(69, []string{"down"}, "coppice down --local")
	waiting.signal(unix.SIGINT)
	waiting.wantExit(0)
	n.heal()
	n.do("up", "-d")
	m.awaitOn(n)
	n.do("down")
	m.checkDown()
}

// The last node that takes agents says so when its daemon is ended.
func testFleetEndedAlone(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	m.start()
	first, second := m.all[0], m.all[1]
	if end := second.downLocal(); end != (localDown{Node: "n2", WasUp: true}) {
		t.Errorf("%+v", end)
	}
	if end := second.downLocal(); end != (localDown{Node: "n2"}) {
		t.Errorf("again: %+v", end)
	}
	first.says([]string{"down", "--local"}, "no other node takes agents: n2 is lost; agents of this node stop",
		"node n1 is down; its agents are stopped, and start when a node takes them")
	first.checkEnded()
	second.do("up", "-d")
	m.awaitOn(second)
	second.do("down")
	m.checkDown()
}

// A second signal to a node that stands by kills the agents that take their time to end.
func testFleetEndedAtOnce(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	const asked = "trap 'echo asked' TERM\n" // before it is known that it runs
	slow := agentTOML("slow", asked+m.locks.script("slow", `while :; do read x <>wait || :; done`), `node = "n2"`,
		`shutdown = { grace = "1h" }`)
	for _, n := range m.all {
		n.rewrite(m.toml, slow)
		if err := unix.Mkfifo(n.dir+"/wait", 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := m.all[0], m.all[1]
	first.init()
	first.wantFailure(1, []string{"up", "-d"}, "t/slow") // which waits for its node
	second.init()
	daemon := launch(t, second.dir, "up")
	m.awaitLife("slow", second)
	daemon.signal(unix.SIGTERM)
	sent := time.Now()
	await(t, waitTimeout, func() string {
		// Both are one, if they come at the same time.
		if out, _ := first.try("logs", "slow"); !strings.Contains(out, "asked") || time.Since(sent) < time.Second {
			return "the agent was not asked to end: " + out
		}
		return ""
	})
	daemon.signal(unix.SIGTERM)
	daemon.wantExit(0)
	second.checkEnded()
	first.do("down")
	m.checkDown()
}
