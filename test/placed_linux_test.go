package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// Agents run on other nodes than that of the controller.
func TestPlaced(t *testing.T) {
	inFleets(t, etcdtest.Options{Members: 1}, map[string]func(*testing.T, *etcdtest.Cluster){
		"one node":     testPlacedOnNode,
		"controller":   testPlacedControllerLost,
		"drained":      testPlacedDrained,
		"lost and cut": testPlacedLost,
		"hooks":        testPlacedHooks,
		"user":         testPlacedUser,
		"one is ended": testPlacedEnded,
		"one leaves":   testPlacedLeaves,
		"removed":      testPlacedRemoved,
		"wrapped":      testPlacedWrapped,
		"other files":  testPlacedOtherFiles,
		"damaged":      testPlacedDamaged,
	})
}

// placed makes a fleet with agents that may not run on the controller, n1.
func placed(t *testing.T, c *etcdtest.Cluster, n int, keys string) (*machines, string) {
	m := newMachines(t, c, n)
	m.toml += m.locked("away", "echo here I am on ${PWD##*/}; "+calmScript, keys)
	for _, one := range m.all {
		one.rewrite(m.toml)
	}
	return m, "away"
}

// placedInZone starts a fleet of three with such an agent, which runs on one of the last two.
func placedInZone(t *testing.T, c *etcdtest.Cluster) (m *machines, first *machine, away string) {
	t.Helper()
	m, away = placed(t, c, 3, `labels = { zone = "eu" }`)
	m.startWith("zone=eu")
	return m, m.all[0], away
}

// startWith starts all machines; those but the first one have a label.
func (m *machines) startWith(label string) {
	m.t.Helper()
	for _, n := range m.all {
		if n == m.all[0] {
			n.init()
		} else {
			n.init("--label", label)
		}
	}
	m.all[0].answers("up", "-d") // and is not well, as long as agents have no node
	for _, n := range m.except(m.all[0]) {
		n.do("up", "-d")
	}
	m.awaitReady(m.all[0])
	m.awaitRunning(m.all[0])
}

// pair returns the node of three on which an agent runs, which is not the first one, and the other.
func (m *machines) pair(l life) (on, other *machine) {
	if l.node == m.all[1].name {
		return m.all[1], m.all[2]
	}
	return m.all[2], m.all[1]
}

// An agent on another node is used from all nodes as any other one.
func testPlacedOnNode(t *testing.T, c *etcdtest.Cluster) {
	m, away := placed(t, c, 2, `node = "n2"`)
	for _, n := range m.all {
		n.rewrite(m.toml, shellTOML("shell", `node = "n2"`),
			agentTOML("parrot", `echo ready $TZ; while read x; do echo "heard $x"; done`, "terminal = true", `node = "n2"`))
	}
	first, second := m.all[0], m.all[1]
	second.env = append(second.env, "TZ=Etc/GMT+5")
	if err := unix.Mkfifo(second.dir+"/shell.fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	m.startWith("zone=eu")
	l := m.awaitLife(away, second)
	first.awaitState("t/away", "running") // it is known some time after it runs
	for _, n := range m.all {
		if got := n.node("t/away"); got.Host != "n2" || got.PID != l.pid || got.State != "running" {
			t.Errorf("%+v", got)
		}
		if got := n.node("t/calm"); got.Host != "n1" {
			t.Errorf("%+v", got)
		}
		n.says([]string{"explain", "away"}, "n2")
	}
	first.awaitState("t/parrot", "running")
	s := newScreen(t, t.TempDir(), 80, 24, "(cd "+first.dir+"; exec coppice attach parrot)")
	s.await("attached to t/parrot|ready")
	s.tmux("send-keys", "polly", "Enter")
	s.await("^heard polly")
	s.tmux("send-keys", "C-]")
	s.await("parrot keeps running")
	for _, n := range m.all {
		if out := n.do("logs", "away"); !strings.Contains(out, "here I am on n2") {
			t.Errorf("the log, on node %s: %q", n.name, out)
		}
		await(t, waitTimeout, func() string {
			if out := n.do("logs", "parrot"); !strings.Contains(out, "heard polly") ||
				!strings.Contains(out, "ready Etc/GMT+5") { // which the daemon of its node has
				return out
			}
			return ""
		})
	}
	second.awaitState("t/shell", "running")
	if out, code := second.inAgent("shell", "coppice agent belief set x=1 && coppice stop calm"); code != exitAuth {
		t.Errorf("an agent on another node: exit code %d: %s", code, out)
	}
	second.do("restart", "away")
	if again := m.awaitLife(away, second); again.pid == l.pid || again.incarnation != l.incarnation+1 {
		t.Errorf("after a restart: %+v, was %+v", again, l)
	}
	if err := unix.Kill(m.awaitLife(away, second).pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	await(t, waitTimeout, func() string {
		if now := m.lastOf(away); now.incarnation != l.incarnation+2 || !runs(now.pid) {
			return fmt.Sprintf("%+v", now)
		}
		return ""
	})
	first.do("stop", "away")
	if l := m.lastOf(away); runs(l.pid) {
		t.Errorf("it still runs: %+v", l)
	}
	first.do("start", "away")
	m.awaitLife(away, second)
	first.do("down")
	m.checkDown()
}

// Agents on other nodes go on, whatever happens to the controller.
func testPlacedControllerLost(t *testing.T, c *etcdtest.Cluster) {
	m, first, away := placedInZone(t, c)
	l := m.awaitLife(away, m.except(first)...)
	m.awaitOn(first)
	before := first.printedEvents()

	first.daemon().kill() // and a new one resumes its leases
	first.do("up", "-d")
	m.awaitReady(first)

	first.signal(first.daemon(), unix.SIGTERM)
	on := m.awaitOn(m.except(first)...)
	first.do("up", "-d")
	m.awaitReady(on)
	before = on.checkEvents(before)

	on.cut()
	next := m.awaitOn(m.except(on)...)
	if l.node != on.name {
		if now := m.lastOf(away); now != l {
			t.Errorf("it was started again: %+v, was %+v", now, l)
		}
	}
	on.heal()
	m.awaitReady(next)
	next.checkEvents(before)
	m.awaitLife(away, m.except(first)...)
	next.do("down")
	m.checkDown()
}

// A node that is drained, or whose daemon is stopped, gives away its agents.
func testPlacedDrained(t *testing.T, c *etcdtest.Cluster) {
	m, first, away := placedInZone(t, c)
	l := m.awaitLife(away, m.except(first)...)
	lives := m.last()
	from, to := m.pair(l)
	first.do("node", "drain", from.name)
	m.awaitLife(away, to)
	e := first.awaitEvent(event.AgentMoved, "t/away", 0)
	want := fmt.Sprintf("it moves to node %s: %s is being drained", to.name, from.name)
	if !strings.Contains(e.Message, want) {
		t.Errorf("%q, want %q", e.Message, want)
	}
	first.do("node", "drain", "--undo", from.name)
	out := to.do("logs", "away")
	before, after := strings.Index(out, "here I am on "+from.name), strings.Index(out, "here I am on "+to.name)
	if before < 0 || after < before {
		t.Errorf("the log after a move: %s", out)
	}
	follower := launch(t, first.dir, "logs", "-f", "-n", "0", "away")

	to.signal(to.daemon(), unix.SIGTERM)
	m.awaitLife(away, from)
	follower.out.awaitText(t, "here I am on "+from.name)
	follower.signal(unix.SIGINT)
	to.do("up", "-d")

	// No node takes it: it waits, and says why.
	first.do("node", "drain", to.name)
	from.signal(from.daemon(), unix.SIGTERM)
	await(t, moved, func() string {
		n := first.node("t/away")
		if strings.Contains(n.Reason, "is being drained") && strings.Contains(n.Reason, "n1 has no label zone") {
			return ""
		}
		return fmt.Sprintf("%+v", n)
	})
	first.do("node", "drain", "--undo", to.name)
	m.awaitLife(away, to)
	m.unchanged(lives)
	first.do("down")
	m.checkDown()
}

// The daemon of one node is ended and started again, with its agents and without.
func testPlacedEnded(t *testing.T, c *etcdtest.Cluster) {
	m, away := placed(t, c, 3, `labels = { zone = "eu" }`)
	for _, n := range m.all {
		n.rewrite(m.toml, shellTOML("shell", `node = "n2"`))
	}
	first, second := m.all[0], m.all[1]
	if err := unix.Mkfifo(second.dir+"/shell.fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	m.startWith("zone=eu")
	second.awaitState("t/shell", "running")
	if out, code := second.inAgent("shell", "coppice down --local"); code != exitAuth {
		t.Errorf("an agent ends the daemon of its node: exit code %d: %s", code, out)
	}
	l := m.awaitLife(away, m.except(first)...)
	lives := m.last()
	from, to := m.pair(l)

	// Each of them is upgraded.
	from.wantFailure(1, []string{"down", "--keep-agents"}, "coppice down --local --keep-agents")
	for _, n := range []*machine{from, to, first} {
		before := n.daemon()
		n.says([]string{"down", "--local", "--keep-agents"}, "node "+n.name+" is down; its agents go on for up to 10s")
		before.awaitEnd(t)
		n.do("up", "-d")
		m.awaitReady(first)
		if now := m.lastOf(away); now != l || !runs(l.pid) {
			t.Errorf("%s was started again when node %s was: %+v, was %+v", away, n.name, now, l)
		}
		m.unchanged(lives)
	}
	if err := unix.Kill(l.pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	await(t, moved, func() string {
		if now := m.lastOf(away); now.incarnation != l.incarnation+1 || !runs(now.pid) {
			return fmt.Sprintf("%+v", now)
		}
		return ""
	})

	from.says([]string{"down", "--local"},
		"node "+from.name+" is down; its agents are stopped, and start on other nodes")
	if l := m.lastOf(away); l.node == from.name && runs(l.pid) {
		t.Errorf("it still runs: %+v", l)
	}
	m.awaitLife(away, to)
	m.unchanged(lives)
	first.says([]string{"status"}, "\nnodes    3: 1 lost, 2 ready\n", "\n         n1 ready, controller, 3 agents\n",
		"\n         "+from.name+" lost, ")
	from.says([]string{"down", "--local"}, "no daemon is running, and no agents on this node")
	from.do("up", "-d")
	m.awaitReady(first)

	first.says([]string{"down", "--local"},
		"node n1 is down; its agents are stopped, and the next controller starts them")
	m.awaitOn(m.except(first)...)
	m.awaitLife(away, to)
	first.checkEnded()
	to.do("down")
	m.checkDown()
}

// The log of an agent that was removed stays on its node, and is read from all others.
func testPlacedRemoved(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	kept := m.toml
	m.toml += agentTOML("away", "echo here I am on ${PWD##*/}; "+calmScript, `node = "n2"`)
	for _, n := range m.all {
		n.rewrite(m.toml)
	}
	m.startWith("zone=eu")
	first, second := m.all[0], m.all[1]
	first.awaitState("t/away", "running")
	first.rewrite(kept)
	first.do("reload")
	await(t, moved, func() string {
		entries, err := os.ReadDir(filepath.Join(second.dir, ".coppice", "run-removed"))
		if err != nil || len(entries) == 0 {
			return fmt.Sprintf("its slot is not removed: %v", err)
		}
		return ""
	})
	for _, n := range m.all {
		await(t, moved, func() string {
			out, err := n.try("logs", "away")
			if err != nil || !strings.Contains(out, "here I am on n2") {
				return fmt.Sprintf("on node %s: %v: %s", n.name, err, out)
			}
			return ""
		})
		n.says([]string{"logs"}, "t/away     | here I am on n2")
		n.wantFailure(3, []string{"logs", "gone"}, "gone: no such node")
	}
	first.do("down")
	m.checkDown()
}

// A node with agents is lost, or cut off from the store.
func testPlacedLost(t *testing.T, c *etcdtest.Cluster) {
	m, first, away := placedInZone(t, c)
	lives := m.last()
	for _, how := range []func(*machine){(*machine).kill, (*machine).cut} {
		l := m.awaitLife(away, m.except(first)...)
		from, to := m.pair(l)
		how(from)
		m.awaitLife(away, to)
		if runs(l.pid) {
			t.Errorf("it still runs on node %s: %+v", from.name, l)
		}
		from.heal()
		if _, err := from.answers("ps"); err != nil {
			from.do("up", "-d")
		}
		m.awaitReady(first)
	}
	m.unchanged(lives)
	first.checkEvents(nil)
	first.do("down")
	m.checkDown()
}

// Hooks and nudges run on the node of their agent, whichever node is the controller, and act as the agent.
func testPlacedHooks(t *testing.T, c *etcdtest.Cluster) {
	note := func(hook string) string {
		return fmt.Sprintf(`%s = '''echo "$COPPICE_HOOK $PWD" >> diary'''`, hook)
	}
	m, away := placed(t, c, 3, strings.Join([]string{
		`node = "n2"`, note("on_start"), note("on_resting"), note("on_error"),
		`on_waking = '''coppice agent belief set woke=$COPPICE_INCARNATION && echo "$COPPICE_HOOK $PWD" >> diary'''`,
		`nudge = { command = '''echo "nudge $PWD" >> diary''' }`,
	}, "\n"))
	pool := agentTOML("crew", `[ -e crashed ] || { : > crashed; exit 3; }; exec sleep 100000`, `node = "n2"`, "[agent.pool]", "min = 1",
		"max = 1", `on_death = '''echo "$COPPICE_EXIT_CODE $PWD" >> deaths'''`)
	for _, n := range m.all {
		n.rewrite(m.toml, pool)
	}
	m.startWith("zone=eu")
	first, second := m.all[0], m.all[1]
	var want []string
	wrote := func(name string, more ...string) {
		t.Helper()
		for _, entry := range more {
			want = append(want, entry+" "+second.dir)
		}
		awaitLines(t, filepath.Join(second.dir, name), want)
	}
	l := m.awaitLife(away, second)
	wrote("diary", "on_waking", "on_start")
	if err := unix.Kill(l.pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	wrote("diary", "on_error", "on_waking", "on_start")
	if got, want := first.belief("t/away", "woke"), fmt.Sprint(l.incarnation+1); got != want {
		t.Errorf("its hook has set %q, want %q", got, want)
	}
	first.do("mail", "send", "away", "-m", "hello")
	wrote("diary", "nudge")

	first.daemon().kill() // and a new one resumes its leases
	first.do("up", "-d")
	m.awaitReady(first)
	first.do("restart", "away")
	wrote("diary", "on_resting", "on_waking", "on_start")

	first.signal(first.daemon(), unix.SIGTERM)
	on := m.awaitOn(m.except(first)...)
	first.do("up", "-d")
	m.awaitReady(on)
	on.do("stop", "away")
	wrote("diary", "on_resting")
	on.do("start", "away")
	wrote("diary", "on_waking", "on_start")

	want = nil
	wrote("deaths", "3")
	for _, n := range m.except(second) {
		for _, name := range []string{"diary", "deaths"} {
			if text, err := os.ReadFile(filepath.Join(n.dir, name)); err == nil {
				t.Errorf("on node %s: %s", n.name, text)
			}
		}
	}
	on.do("down")
	m.checkDown()
}

// awaitLines waits until a file has these lines.
func awaitLines(t *testing.T, file string, want []string) {
	t.Helper()
	await(t, moved, func() string {
		text, err := os.ReadFile(file)
		if got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); err != nil || !slices.Equal(got, want) {
			return fmt.Sprintf("%s: %q, %v; want %q", file, got, err, want)
		}
		return ""
	})
}

// An agent on another node whose program has ended below a shell has crashed.
func testPlacedWrapped(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	first, second := m.all[0], m.all[1]
	die := fifo(t, second.dir, "die")
	write(t, filepath.Join(second.dir, "brain.sh"), `echo "I am here"; read x < die; echo "I can see a light"`)
	for _, n := range m.all {
		n.rewrite(`[daemon]
patrol_interval = "100ms"
`, m.toml, agentTOML("wrapped", "sh ./brain.sh; exec sleep 100000", `node = "n2"`, `process_names = ["brain.sh"]`,
			`ready = { log = "I am here" }`, `backoff = { kind = "fixed", base = "5m" }`),
			agentTOML("other", "exec sleep 100000", `node = "n2"`, `process_names = ["sleep"]`))
	}
	m.startWith("zone=eu")
	first.awaitState("t/wrapped", "running")
	before := first.awaitState("t/other", "running")
	die()
	first.awaitState("t/wrapped", "restarting")
	first.says([]string{"explain", "wrapped"}, "none of its processes is brain.sh, while its wrapper still runs")
	if crashed := first.events(event.AgentCrashed, "t/wrapped"); len(crashed) != 1 ||
		!strings.Contains(string(crashed[0].Data), "I can see a light") {
		t.Errorf("%+v", crashed)
	}
	if n := first.node("t/other"); n.Host != "n2" || n.State != "running" || n.Incarnation != before.Incarnation {
		t.Errorf("one whose program runs: %+v, was %+v", n, before)
	}
	first.do("down")
	m.checkDown()
}

// The fleet says which nodes have other files than the controller, and when these count.
func testPlacedOtherFiles(t *testing.T, c *etcdtest.Cluster) {
	m := newMachines(t, c, 2)
	for _, n := range m.all {
		n.rewrite(m.toml)
	}
	m.startWith("zone=eu")
	first, second := m.all[0], m.all[1]
	says := func(on *machine, want bool, args ...string) {
		t.Helper()
		await(t, waitTimeout, func() string {
			if out := on.do(args...); strings.Contains(out, "ready, other files") != want {
				return out
			}
			return ""
		})
	}
	says(first, false, "node", "ls")
	second.rewrite(m.toml, agentTOML("more", calmScript))
	says(second, true, "node", "ls")
	says(first, true, "status")
	second.says([]string{"node", "show", "n2"}, "differ from those of the controller")
	first.rewrite(m.toml, agentTOML("more", calmScript), agentTOML("most", calmScript))
	first.do("reload")
	first.awaitState("t/most", "running")
	first.do("down", "--local")
	m.awaitOn(second)
	started := second.events(event.ControllerStarted, "")
	if last := started[len(started)-1].Message; !strings.Contains(last, "differ from those on node n1") {
		t.Error(last)
	}
	second.awaitState("t/more", "running")
	await(t, waitTimeout, func() string {
		if out := second.do("ps"); strings.Contains(out, "t/most") {
			return out
		}
		return ""
	})
	second.do("down")
	m.checkDown()
}
