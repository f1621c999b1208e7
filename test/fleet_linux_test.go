package test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// Fleets of several machines. They have an etcd with three members in common.
func TestFleet(t *testing.T) {
	inFleets(t, etcdtest.Options{}, map[string]func(*testing.T, *etcdtest.Cluster){
		"joined":          testFleetJoined,
		"planned":         testFleetPlanned,
		"ended twice":     testFleetEndedTwice,
		"killed":          testFleetKilled,
		"daemon killed":   testFleetDaemonKilled,
		"ended by hand":   testFleetEndedByHand,
		"controller cut":  testFleetControllerCut,
		"standby cut":     testFleetStandbyCut,
		"paused":          testFleetPaused,
		"without a store": testFleetWithoutStore,
		"ended alone":     testFleetEndedAlone,
		"ended at once":   testFleetEndedAtOnce,
		"on a full disk":  testFleetOnFullDisk,
		"ended starting":  testFleetEndedWhileStarting,
	})
}

// Machines become nodes in three ways. Then each of them answers as the controller does.
func testFleetJoined(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 3, shellTOML("shell"), agentTOML("parrot", `echo ready; while read x; do echo "heard $x"; done`,
		`terminal = true`), "[[order]]\nname = \"hello\"\ngate = \"manual\"\nexec = \"echo hello from $PWD\"\n")
	first, second, third := m.all[0], m.all[1], m.all[2]
	for _, n := range m.all {
		if err := syscall.Mkfifo(filepath.Join(n.dir, "shell.fifo"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first.init()
	first.do("up", "-d")
	token := strings.TrimSpace(first.printed("cluster", "token"))
	second.do("cluster", "join", token, "--name", second.name, "--listen", second.listen, "--advertise", second.listen)
	second.do(initArgs("--store", second.url)...) // its own way to the store
	second.says([]string{"up", "-d"}, "node n2 stands by", "the controller is node n1")
	third.init()
	third.says([]string{"up", "-d", "--store", third.url}, "node n3 stands by", "the controller is node n1")
	m.awaitOn(first)
	m.awaitReady(first)

	first.do("task", "add", "to be done")
	first.do("belief", "set", "calm", "x=5")
	if out, code := first.inAgent("shell", "coppice agent ask Really? --no-wait"); code != 0 {
		t.Errorf("an agent cannot ask: %s", out)
	}
	for _, args := range [][]string{
		{"ps", "--json"}, {"logs", "parrot"}, {"events", "--json"}, {"explain", "calm"}, {"inbox", "--json"},
		{"task", "ls", "--json"}, {"belief", "get", "calm", "x"}, {"order", "ls", "--json"}, {"node", "ls", "--json"},
		{"tree"},
	} {
		for _, n := range []*machine{second, third} {
			await(t, waitTimeout, func() string { // the fleet goes on between the two commands
				want, got := steady(first.printed(args...)), steady(n.printed(args...))
				if got == want && got != "" {
					return ""
				}
				return fmt.Sprintf("coppice %s on %s prints\n%s\nwant\n%s", strings.Join(args, " "), n.name, got, want)
			})
		}
	}
	third.do("order", "run", "hello")
	third.awaitEvent(event.OrderCompleted, "", 0)
	if out := third.do("order", "history", "-o", "hello"); !strings.Contains(out, "hello from "+first.dir) {
		t.Errorf("the run of the order says %q", out)
	}
	s := newScreen(t, t.TempDir(), 80, 24, "(cd "+second.dir+"; exec coppice attach parrot)")
	s.await("attached to t/parrot|ready")
	s.tmux("send-keys", "polly", "Enter")
	s.await("^heard polly")
	s.tmux("send-keys", "C-]")
	s.await("parrot keeps running")

	// An agent is no person, whichever node it asks. Only its own machine knows its processes, so others know it by its
	// token.
	for how, script := range evasions("coppice stop calm") {
		if out, code := first.inAgent("shell", script); code != exitAuth {
			t.Errorf("%s: exit code %d: %s", how, code, out)
		}
	}
	for _, n := range m.all {
		through := "cd /; COPPICE_SOCKET=" + n.socket() + " coppice "
		if out, code := first.inAgent("shell", through+"stop calm"); code != exitAuth ||
			!strings.Contains(out, "only people can ") {
			t.Errorf("through %s: exit code %d: %s", n.name, code, out)
		}
		if out, code := first.inAgent("shell", through+"agent belief set --string by="+n.name); code != 0 {
			t.Errorf("its own belief, through %s: exit code %d: %s", n.name, code, out)
		}
	}
	third.do("stop", "calm")
	if n := first.node("t/calm"); n.State != "stopped" {
		t.Errorf("stopped from another node: %+v", n)
	}
	second.do("down")
	m.checkDown()
}

// changing matches what commands print of times.
var changing = regexp.MustCompile(`,"uptime_seconds":[^,}]*|,"vitals":\{[^{}]*\}|\b\d+(\.\d+)?(ms|s|m|h)\b`)

// steady returns the output of a command without what changes all the time.
func steady(text string) string {
	return changing.ReplaceAllString(text, "")
}

// A daemon that is stopped, and a node that is drained, hand over at once.
func testFleetPlanned(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 3)
	m.start()
	first := m.all[0]
	first.do("task", "add", "to be done")
	before := first.printedEvents()
	d := first.daemon()
	first.signal(d, unix.SIGTERM)
	await(t, waitTimeout, func() string {
		if runs(d.pid) {
			return "the daemon has not ended"
		}
		return ""
	})
	on := m.awaitOn(m.except(first)...)
	first.do("up", "-d")
	m.awaitReady(on)
	before = on.checkEvents(before)

	m.all[0].says([]string{"node", "drain", on.name}, "draining")
	next := m.awaitOn(m.except(on)...)
	states := map[string]nodes.State{"n1": nodes.Ready, "n2": nodes.Ready, "n3": nodes.Ready, on.name: nodes.Draining}
	first.awaitNodes(next.name, states)
	first.do("node", "drain", "--undo", on.name)
	states[on.name] = nodes.Ready
	first.awaitNodes(next.name, states)
	if text := on.daemonLog(); strings.Contains(text, fmt.Sprintf("controller %d started", next.daemon().pid)) {
		t.Errorf("the log of a node that stands by has the events of the controller:\n%s", text)
	}
	before = next.checkEvents(before)

	m.except(next)[0].do("down")
	m.checkDown()
	first.do("up", "-d")
	m.awaitOn(first)
	first.checkEvents(before)
	if out := first.do("task", "ls"); !strings.Contains(out, "to be done") {
		t.Errorf("the task is lost: %s", out)
	}
}

// The fleet is stopped while its controller, which was ended, still stops its agents.
func testFleetEndedTwice(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	m.start()
	first := m.all[0]
	first.signal(first.daemon(), unix.SIGTERM)
	await(t, waitTimeout, func() string {
		if text := first.daemonLog(); !strings.Contains(text, "stopping everything") { // for stopGrace
			return "it does not stop: " + text
		}
		return ""
	})
	m.all[1].do("down")
	m.checkDown()
}

// The daemon and the shims of the controller are killed. What their agents have started ends before they are started
// elsewhere, since each process of an agent has its lock; in tmux also the agent itself.
func testFleetKilled(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 3)
	m.agents = append(m.agents, "paned")
	m.toml += m.locked("paned", parentalScript, `runtime = "tmux"`)
	for _, n := range m.all {
		n.rewrite(m.toml)
	}
	m.start()
	first := m.all[0]
	before := m.all[1].printedEvents()
	first.kill()
	left := first.processes(true)
	if len(left) < 5 {
		t.Errorf("without their shims run %v, expected what parental has started, and paned", left)
	}
	on := m.awaitOn(m.except(first)...)
	for _, p := range left {
		p.awaitEnd(t)
	}
	lost := slices.DeleteFunc(on.checkEvents(before), func(e event.Event) bool { return e.Type != event.NodeLost })
	if len(lost) != 1 || !strings.Contains(lost[0].Message, "node n1 is lost") {
		t.Errorf("%d events of type node.lost: %v", len(lost), lost)
	}
	first.says([]string{"up", "-d"}, "stands by", "the controller is node "+on.name)
	m.awaitReady(on)
	lives := m.last()
	on.checkEvents(before)
	m.unchanged(lives)
	first.do("down")
	m.checkDown()
}

// The daemon of the controller alone is killed, and started again before its leases have ended.
func testFleetDaemonKilled(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	m.start()
	first, lives := m.all[0], m.last()
	before := first.printedEvents()
	for range 3 {
		first.daemon().kill()
		first.do("up", "-d")
		m.awaitReady(first)
		m.unchanged(lives)
	}
	m.all[1].checkEvents(before)
	m.all[1].do("down")
	m.checkDown()
}

// What the controller's daemon has left, which is killed and not started again, is stopped.
func testFleetEndedByHand(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	m.start()
	first, second := m.all[0], m.all[1]
	first.daemon().kill()
	first.says([]string{"down"}, "t/calm stopped", "3 agents without a daemon, all stopped")
	for _, p := range processesIn(t, first.dir) {
		p.awaitEnd(t)
	}
	m.awaitOn(second)
	second.do("down")
	m.checkDown()
}

// The node of the controller is cut off from the store.
func testFleetControllerCut(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 3)
	m.start()
	first, lives := m.all[0], m.last()
	before := first.printedEvents()
	first.cut()
	on := m.awaitOn(m.except(first)...)
	for agent, l := range lives {
		if runs(l.pid) {
			t.Errorf("%s still runs on the node that is cut off", agent)
		}
	}
	now := m.last()
	before = on.checkEvents(before)
	first.answersAll()
	for _, n := range m.except(first) {
		n.do("ps")
	}
	first.heal()
	m.awaitReady(on)
	await(t, moved, func() string {
		if out, err := first.answers("ps"); err != nil {
			return out
		}
		return ""
	})
	m.unchanged(now)
	first.checkEvents(before)
	first.do("down")
	m.checkDown()
}

// A node that stands by is cut off from the store.
func testFleetStandbyCut(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	m.start()
	first, second, lives := m.all[0], m.all[1], m.last()
	second.cut()
	first.awaitNodes("n1", map[string]nodes.State{"n1": nodes.Ready, "n2": nodes.Lost})
	second.answersAll()
	second.heal()
	m.awaitReady(first)
	m.unchanged(lives)

	second.cut() // so it does not learn that it is to end
	if out, err := second.answers("down"); err != nil {
		t.Errorf("down on a node that is cut off: %v: %s", err, out)
	}
	m.checkDown()
}

// All processes of the controller's machine are paused until others have taken over.
func testFleetPaused(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	m.start()
	first, second, lives := m.all[0], m.all[1], m.last()
	before := second.printedEvents()
	paused := processesIn(t, first.dir)
	for _, p := range paused {
		first.signal(p, unix.SIGSTOP)
	}
	m.locks.newEra(t)
	m.awaitOn(second)
	m.awaitRunning(second)
	began := second.checkEvents(before)
	for _, p := range paused {
		first.signal(p, unix.SIGCONT)
	}
	resumed := time.Now()
	for agent, l := range lives {
		for runs(l.pid) {
			if time.Since(resumed) > waitTimeout {
				t.Fatalf("%s still runs %v after the pause", agent, time.Since(resumed))
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("%s has ended %v after the pause", agent, time.Since(resumed).Round(time.Millisecond))
	}
	m.awaitReady(second)
	now := m.last()
	for _, e := range second.checkEvents(began)[len(began):] {
		t.Errorf("after the pause: %s", e.Message)
	}
	first.do("ps")
	m.unchanged(now)
	second.do("down")
	m.checkDown()
}

// A daemon is started while no member of etcd answers.
func testFleetWithoutStore(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 1)
	n := m.all[0]
	n.init()
	n.cut()
	out, err := n.answers("up", "-d")
	doctor, _ := n.answers("doctor")
	for _, part := range []string{"waits for the store of the fleet", n.proxies[0].Address, "says nothing"} {
		if err == nil || !strings.Contains(out, part) {
			t.Errorf("up -d: %v: %s; want %q", err, out, part)
		}
	}
	if !strings.Contains(doctor, "answers, and is a node of a fleet: no controller answers: opening etcd://") {
		t.Error(doctor)
	}
	for _, jargon := range []string{"rpc error", "desc =", "transport:", "Unavailable"} {
		if strings.Contains(out+doctor+n.daemonLog(), jargon) {
			t.Errorf("it says %q: %s %s %s", jargon, out, doctor, n.daemonLog())
		}
	}
	n.answersAll()
	n.heal()
	m.awaitOn(n)
	n.do("down")
	m.checkDown()
}

// One member of etcd is lost, and comes back.
func TestFleetMemberLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	m := newMachines(t, c, 2)
	m.start()
	first, lives := m.all[0], m.last()
	before := first.printedEvents()
	for i := range 3 {
		c.Kill(i)
		for _, n := range m.all {
			n.do("task", "add", "to be done")
			n.do("ps")
		}
		m.awaitReady(first)
		c.Restart(i)
	}
	for _, e := range first.checkEvents(before)[len(before):] {
		if e.Type != event.TaskCreated {
			t.Errorf("after the loss of members: %s %s", e.Type, e.Message)
		}
	}
	m.unchanged(lives)
	first.do("down")
	m.checkDown()
}
