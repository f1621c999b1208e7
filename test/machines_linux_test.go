package test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/store/etcd"
	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// machines is a fleet of several machines: directories of this one, each with its own way to etcd.
type machines struct {
	t      *testing.T
	etcd   *etcdtest.Cluster
	prefix string // of the store
	store  func() *etcd.Store
	locks  locks
	toml   string
	all    []*machine
	agents []string // names of those that hold a lock
}

// machine is one of them. It is a node of the same name.
type machine struct {
	*fleet
	name    string
	listen  string
	url     string
	store   func() *etcd.Store // of the fleet, past the proxies
	proxies []*etcdtest.Proxy
}

// The agents of these fleets.
const (
	calmScript     = `exec sleep 100000`
	parentalScript = `setsid sleep 100000 & sleep 100000 & wait`
	stubbornScript = `trap "" TERM; while :; do sleep 1000; done`
)

// Times of these fleets. Agents that do not end when they are asked have stopGrace.
const (
	stopGrace = 2 * time.Second
	leaseTTL  = election.DefaultTTL
	// moved bounds the time from the loss of a node to agents on another one, on a machine that is busy with other
	// tests.
	moved = leaseTTL + stopGrace + 30*time.Second
)

// inFleets runs tests in parallel, each with a fleet of its own. They have an etcd in common.
func inFleets(t *testing.T, o etcdtest.Options, tests map[string]func(*testing.T, *etcdtest.Cluster)) {
	t.Parallel()
	c := etcdtest.Start(t, o)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// newMachines makes a fleet with a calm, a parental and a stubborn agent, and others. No machine is a node yet.
func newMachines(t *testing.T, c *etcdtest.Cluster, n int, others ...string) *machines {
	t.Helper()
	m := &machines{t: t, etcd: c, prefix: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), locks: newLocks(t)}
	m.store = sync.OnceValue(func() *etcd.Store {
		l, err := etcd.ParseLocation(fmt.Sprintf("etcd://%s/%s", strings.Join(c.Endpoints(), ","), m.prefix))
		if err != nil {
			t.Fatal(err)
		}
		s, err := etcd.Open(t.Context(), l, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
	m.toml = m.once("calm", calmScript) + m.once("parental", parentalScript) +
		m.once("stubborn", stubbornScript) + strings.Join(others, "")
	for range n {
		m.add()
	}
	t.Cleanup(func() { m.locks.check(t) })
	return m
}

// once returns an agent that runs a script with a lock.
func (m *machines) once(name, script string) string {
	m.agents = append(m.agents, name)
	return m.locked(name, script)
}

// locked returns an agent that runs a script with a lock, and has other keys.
func (m *machines) locked(name, script string, keys ...string) string {
	keys = append(keys, fmt.Sprintf("shutdown = { grace = %q }", stopGrace))
	return agentTOML(name, m.locks.script(name, script), keys...)
}

// add makes a machine.
func (m *machines) add() *machine {
	m.t.Helper()
	parent, err := filepath.EvalSymlinks(m.t.TempDir())
	if err != nil {
		m.t.Fatal(err)
	}
	return m.addIn(parent)
}

// addIn makes a machine in a directory.
func (m *machines) addIn(parent string) *machine {
	m.t.Helper()
	name := fmt.Sprintf("n%d", len(m.all)+1)
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		m.t.Fatal(err)
	}
	// No connection from 127.0.0.1 takes the port while the daemon does not run.
	n := &machine{name: name, listen: fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254),
		10000+rand.IntN(20000)), store: m.store}
	var endpoints []string
	for _, member := range m.etcd.Endpoints() {
		p := etcdtest.NewProxy(m.t, member)
		n.proxies = append(n.proxies, p)
		endpoints = append(endpoints, p.Address)
	}
	n.url = fmt.Sprintf("etcd://%s/%s", strings.Join(endpoints, ","), m.prefix)
	n.fleet = fleetIn(m.t, dir, m.toml)
	m.t.Cleanup(n.heal) // before it is stopped
	m.all = append(m.all, n)
	return n
}

// start makes all machines nodes, and starts them one after the other: the first one is the controller.
func (m *machines) start() {
	m.t.Helper()
	for _, n := range m.all {
		n.init()
		n.do("up", "-d")
	}
	m.awaitOn(m.all[0])
	m.awaitReady(m.all[0])
	m.awaitRunning(m.all[0])
}

// awaitRunning waits until the log says that all agents run.
func (m *machines) awaitRunning(on *machine) {
	m.t.Helper()
	for _, agent := range m.agents {
		on.awaitState("t/"+agent, "running")
	}
}

// awaitReady waits until all machines are ready, and one is the controller.
func (m *machines) awaitReady(controller *machine) {
	m.t.Helper()
	states := make(map[string]nodes.State)
	for _, n := range m.all {
		states[n.name] = nodes.Ready
	}
	controller.awaitNodes(controller.name, states)
}

// await waits until missing returns "".
func await(t *testing.T, within time.Duration, missing func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		switch what := missing(); {
		case what == "":
			return
		case time.Since(began) > within:
			t.Fatalf("after %v: %s", within, what)
		}
	}
}

// last returns the last lives of all agents.
func (m *machines) last() map[string]life {
	m.t.Helper()
	all := make(map[string]life)
	for _, agent := range m.agents {
		if lives := m.locks.lives(m.t, agent); len(lives) > 0 {
			all[agent] = lives[len(lives)-1]
		}
	}
	return all
}

// awaitOn waits until all agents run on some nodes and one of these is the controller, which it returns.
func (m *machines) awaitOn(some ...*machine) (controller *machine) {
	m.t.Helper()
	m.awaitAgents(some...)
	await(m.t, moved, func() string {
		all := some[0].list()
		i := slices.IndexFunc(some, func(n *machine) bool { return all[n.name].Controller })
		if i < 0 {
			return fmt.Sprintf("none of the nodes is the controller: %v", all)
		}
		controller = some[i]
		return ""
	})
	return controller
}

// awaitAgents waits until all agents run on some nodes.
func (m *machines) awaitAgents(some ...*machine) {
	m.t.Helper()
	await(m.t, moved, func() string {
		m.locks.check(m.t)
		for _, agent := range m.agents {
			lives := m.locks.lives(m.t, agent)
			if len(lives) == 0 {
				return agent + " was never started"
			}
			l := lives[len(lives)-1]
			switch {
			case !slices.ContainsFunc(some, func(n *machine) bool { return n.name == l.node }):
				return fmt.Sprintf("%s was started last on node %s: %v", agent, l.node, l)
			case !runs(l.pid):
				return fmt.Sprintf("%s does not run: %v", agent, l)
			}
		}
		return ""
	})
}

// awaitLife waits until an agent runs on a node, and returns its life.
func (m *machines) awaitLife(agent string, on ...*machine) (l life) {
	m.t.Helper()
	await(m.t, moved, func() string {
		m.locks.check(m.t)
		lives := m.locks.lives(m.t, agent)
		if len(lives) == 0 {
			return agent + " was never started"
		}
		l = lives[len(lives)-1]
		if !slices.ContainsFunc(on, func(n *machine) bool { return n.name == l.node }) || !runs(l.pid) {
			return fmt.Sprintf("%s was started last on node %s: %+v", agent, l.node, l)
		}
		return ""
	})
	return l
}

// lastOf returns the last life of an agent, which has one.
func (m *machines) lastOf(agent string) life {
	lives := m.locks.lives(m.t, agent)
	return lives[len(lives)-1]
}

// runs reports whether a process has not ended.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	at := strings.LastIndex(string(text), ") ")
	return err == nil && at > 0 && text[at+2] != 'Z'
}

// except returns the other machines.
func (m *machines) except(n *machine) []*machine {
	return slices.DeleteFunc(slices.Clone(m.all), func(other *machine) bool { return other == n })
}

// checkDown fails the test unless nothing of the fleet runs.
func (m *machines) checkDown() {
	m.t.Helper()
	for _, n := range m.all {
		n.checkEnded()
	}
}

// checkEnded fails the test unless nothing of a machine runs.
func (n *machine) checkEnded() {
	n.t.Helper()
	for _, p := range processesIn(n.t, n.dir) {
		p.awaitEnd(n.t)
	}
}

// unchanged fails the test if an agent was started since.
func (m *machines) unchanged(since map[string]life) {
	m.t.Helper()
	for agent, l := range m.last() {
		if l != since[agent] || !runs(l.pid) {
			m.t.Errorf("%s has been started again, or has ended: %+v, was %+v", agent, l, since[agent])
		}
	}
}
