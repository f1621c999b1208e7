package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/event"
)

// init makes a machine a node.
func (n *machine) init(args ...string) string {
	n.t.Helper()
	return n.do(initArgs(append([]string{"--store", n.url, "--name", n.name, "--listen", n.listen, "--advertise",
		n.listen}, args...)...)...)
}

// cut cuts a machine off from etcd: nothing gets through, and nothing is told.
func (n *machine) cut() {
	for _, p := range n.proxies {
		p.Silence()
	}
}

// heal ends that.
func (n *machine) heal() {
	for _, p := range n.proxies {
		p.Pass()
	}
}

// processes returns those of a machine: its daemon with shims and keepers, or its agents with all that they have
// started. Its guard and its tmux server are neither.
func (n *machine) processes(agents bool) (all []process) {
	n.t.Helper()
	for _, p := range processesIn(n.t, n.dir) {
		if strings.Contains(p.name, " guard ") || strings.HasPrefix(p.name, "tmux ") {
			continue
		}
		isAgent := !strings.Contains(p.name, " shim run ") && !strings.Contains(p.name, " up --file ") &&
			!strings.Contains(p.name, " pane log ")
		if isAgent == agents {
			all = append(all, p)
		}
	}
	return all
}

// kill kills the daemon, the shims and the keepers of a machine at once, and waits until they have ended. What agents
// have started goes on until the guard ends it.
func (n *machine) kill() {
	n.t.Helper()
	all, agents := n.processes(false), n.processes(true)
	if len(all) < 2 || len(agents) == 0 {
		n.t.Fatalf("node %s has the processes %v and the agents %v; expected a daemon and shims", n.name, all, agents)
	}
	for _, p := range all {
		n.signal(p, unix.SIGSTOP)
	}
	for _, p := range all {
		p.kill()
	}
	for _, p := range all {
		p.awaitEnd(n.t)
	}
}

// signal sends a signal to a process that has not ended.
func (n *machine) signal(p process, sig unix.Signal) {
	n.t.Helper()
	if err := unix.PidfdSendSignal(p.pidfd, sig, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
		n.t.Fatalf("%v to process %d (%s): %v", sig, p.pid, p.name, err)
	}
}

// daemon returns the daemon of a machine.
func (n *machine) daemon() process {
	n.t.Helper()
	for _, p := range n.processes(false) {
		if strings.Contains(p.name, " up --file ") {
			return p
		}
	}
	n.t.Fatalf("node %s has no daemon", n.name)
	return process{}
}

// daemonLog returns what the daemons of a machine have printed.
func (n *machine) daemonLog() string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, ".coppice", "daemon.log"))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// list returns the nodes that are in the store. It is called often, so no command does it.
func (n *machine) list() map[string]nodes.Info {
	n.t.Helper()
	all, err := nodes.List(n.t.Context(), n.store())
	if err != nil {
		n.t.Fatal(err)
	}
	byName := make(map[string]nodes.Info)
	for _, info := range all {
		byName[info.Name] = info
	}
	return byName
}

// awaitNodes waits until all nodes are in a state, and one is the controller.
func (n *machine) awaitNodes(controller string, states map[string]nodes.State) {
	n.t.Helper()
	await(n.t, moved, func() string {
		all := n.list()
		for name, want := range states {
			if got := all[name]; got.State != want || got.Controller != (name == controller) {
				return fmt.Sprintf("node %s is %s, the controller: %v; want %s, controller %s", name, got.State,
					got.Controller, want, controller)
			}
		}
		return ""
	})
}

// answers runs a command that must end within some seconds, whatever it says.
func (n *machine) answers(args ...string) (out string, err error) {
	n.t.Helper()
	const within = 30 * time.Second // it waits for etcd for 15 s
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	cmd := command(n.t, args...)
	c := exec.CommandContext(ctx, cmd.Path, args...)
	c.WaitDelay = time.Second
	c.Dir, c.Env = n.dir, append(os.Environ(), n.env...)
	text, err := c.CombinedOutput()
	if ctx.Err() != nil {
		n.t.Errorf("coppice %s on node %s has not ended after %v: %s", strings.Join(args, " "), n.name, within, text)
	}
	return string(text), err
}

// checkEvents fails the test unless the log has no gap and all events that were there before, and returns it.
func (n *machine) checkEvents(before []event.Event) []event.Event {
	n.t.Helper()
	all := n.printedEvents()
	for i, e := range all {
		if e.Seq != uint64(i)+1 {
			n.t.Fatalf("event %d has the number %d: %s", i+1, e.Seq, e.Message)
		}
	}
	if len(all) < len(before) {
		n.t.Fatalf("%d events, there were %d before", len(all), len(before))
	}
	for i, e := range before {
		if got := all[i]; got.Message != e.Message || got.Type != e.Type || !got.Time.Equal(e.Time) {
			n.t.Errorf("event %d is %q, it was %q", e.Seq, got.Message, e.Message)
		}
	}
	return all
}

// lookups are commands that must not hang, whatever is cut off.
var lookups = [][]string{
	{"ps"}, {"status"}, {"events"}, {"explain", "calm"}, {"node", "ls"}, {"task", "add", "x"}, {"stop", "none"},
}

// answersAll runs commands on a machine that is cut off. They must not hang, and those that fail must say why.
func (n *machine) answersAll() {
	n.t.Helper()
	for _, args := range lookups {
		out, err := n.answers(args...)
		why := strings.Contains(out, "no controller answers") || strings.Contains(out, "store cannot be reached") ||
			strings.Contains(out, "t/none: no such node")
		if err != nil && !why {
			n.t.Errorf("coppice %s on node %s fails, and does not say why: %s", strings.Join(args, " "), n.name, out)
		}
	}
}
