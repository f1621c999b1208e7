// Package cluster kills, stops, pauses and cuts off the nodes of a fleet of several machines, and the members of its
// etcd. It checks that no agent ever runs twice, that others take over in time, and that nothing that was acknowledged
// is lost.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/tools/chaos/internal/network"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// Targets: from the loss of the controller's node to the next controller, and to all agents on its node.
const (
	takeoverTarget  = election.DefaultTTL + 2*time.Second
	elsewhereTarget = election.DefaultTTL + 5*time.Second
	grace           = 2 * time.Second // of agents
)

// fleet runs on several machines, to which faults happen.
type fleet struct {
	trial.Options
	rnd     *rand.Rand
	net     network.Network
	nodes   []*node
	journal *journal
	adder   *taskAdder
	times   times
	events  []event.Event
	eras    int
}

// Run is a whole trial: a fleet of three nodes, faults over and over, the check.
func Run(o trial.Options) (err error) {
	if o.Etcd, err = findEtcd(o.Etcd); err != nil {
		return err
	}
	t := &fleet{Options: o, rnd: rand.New(rand.NewPCG(o.Seed, 0)), times: times{}}
	if t.journal, err = newJournal(filepath.Join(o.Dir, "shared")); err != nil {
		return err
	}
	if t.net, err = network.New(o); err != nil {
		return err
	}
	defer t.net.Close()
	defer func() {
		for _, n := range t.nodes {
			n.clean()
		}
	}()
	if t.nodes, err = newNodes(o, t.net, t.toml()); err != nil {
		return err
	}
	if err := t.settle(); err != nil {
		return err
	}
	t.adder = newTaskAdder(t.nodes)
	for round := range o.Rounds {
		if err := t.round(); err != nil {
			t.adder.stop()
			return fmt.Errorf("round %d: %w%s", round, err, t.logs())
		}
	}
	t.adder.stop()
	for _, line := range t.times.table() {
		o.Say("%s", line)
	}
	return errors.Join(t.check(), t.down(), t.times.late(o.Slack))
}

// toml returns the file of the fleet. Every tenth agent does not end when it is asked.
func (t *fleet) toml() string {
	var b strings.Builder
	b.WriteString(t.Header(""))
	for i := range t.Agents {
		kind := "calm"
		if i%10 == 9 {
			kind = "stubborn"
		}
		name := fmt.Sprint("a", i)
		fmt.Fprintf(&b, "\n[[agent]]\nname = %q\ncommand = [\"/bin/sh\", %q, %q, %q, %q]\n"+
			"backoff = \"none\"\nshutdown = { grace = %q }\n", name, filepath.Join(t.journal.dir, "agent.sh"),
			t.journal.dir, name, kind, grace)
	}
	return b.String()
}

// patience bounds waits for what the targets are about, so that a failure tells what is missing.
const patience = 90 * time.Second

// controller returns the node of the controller, as those of some nodes say that are asked.
func (t *fleet) controller(asked ...*node) (found *node, err error) {
	err = poll(patience, func() error {
		var errs []error
		for _, n := range asked {
			name, err := n.controller()
			i := slices.IndexFunc(t.nodes, func(n *node) bool { return n.name == name })
			if err == nil && i >= 0 {
				found = t.nodes[i]
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return found, err
}

// settle waits until all nodes answer and say which one is the controller, and all agents run.
func (t *fleet) settle() error {
	err := poll(patience, func() error {
		leader := ""
		for _, n := range t.nodes {
			switch name, err := n.controller(); {
			case err != nil:
				return fmt.Errorf("node %s: %w", n.name, err)
			case leader != "" && name != leader:
				return fmt.Errorf("the controller is node %s, and node %s, as node %s says", leader, name, n.name)
			default:
				leader = name
			}
		}
		return t.journal.running(t.Agents)
	})
	if err != nil {
		return err
	}
	return t.ready()
}

// ready waits until all nodes can take over, and one is the controller.
func (t *fleet) ready() error {
	return poll(patience, func() error {
		out, err := t.nodes[0].run("node", "ls", "--json")
		if err != nil {
			return err
		}
		leaders, err := readyNodes(out)
		if err == nil && leaders != 1 {
			err = fmt.Errorf("%d nodes are the controller: %s", leaders, out)
		}
		return err
	})
}

// round has one fault happen, and waits until it is over.
func (t *fleet) round() error {
	time.Sleep(time.Duration(t.rnd.IntN(3000)) * time.Millisecond) // the random moment
	leader, err := t.controller(t.nodes...)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(t.nodes), func(n *node) bool { return n == leader })
	f := faults[t.rnd.IntN(len(faults))]
	if t.First != "" { // a short form has those that matter most
		f, t.First = t.nextFault()
	}
	t.journal.begin()
	from, err := uptime()
	if err != nil {
		return err
	}
	began := time.Now()
	t.Say("%s (the controller is node %s)", f.name, leader.name)
	other := slices.MaxFunc(others, func(a, b *node) int {
		return cmp.Compare(t.journal.on(a.name), t.journal.on(b.name))
	})
	if err := f.strike(t, leader, other); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := t.settle(); err != nil {
		return fmt.Errorf("after %s: %w", f.name, err)
	}
	struck := leader
	if f.standby {
		struck = other
	}
	if err := t.journal.quiet(struck.name, f.starts); err != nil {
		return fmt.Errorf("after %s: %w", f.name, err)
	}
	now, err := t.controller(t.nodes...)
	if err != nil {
		return err
	}
	if moved := now != leader; moved && f.stays || !moved && f.moves {
		return fmt.Errorf("after %s: the controller is node %s, and was node %s", f.name, now.name, leader.name)
	}
	started, err := t.readEvents(now)
	if err != nil {
		return fmt.Errorf("after %s: %w", f.name, err)
	}
	if f.moves {
		t.times.add(f.name, "controller", started.Sub(began))
	}
	if last := t.journal.latest(); last > 0 { // else none was on the node
		t.times.add(f.name, "agents", last-from)
	}
	return nil
}

// readEvents reads the events since the last round, and returns when a controller was started last.
func (t *fleet) readEvents(n *node) (started time.Time, err error) {
	last := uint64(len(t.events))
	err = n.ask(patience, func(ctx context.Context, c *api.Client) error {
		for e, err := range feed.Events(ctx, c, event.Query{After: last}) {
			if err != nil {
				return err
			}
			if e.Seq != uint64(len(t.events))+1 {
				return fmt.Errorf("event %d comes after %d", e.Seq, len(t.events))
			}
			if e.Type == event.ControllerStarted {
				started = e.Time
			}
			t.events = append(t.events, e)
		}
		return nil
	})
	return started, err
}

// check reads all events again, and looks for all tasks that were acknowledged.
func (t *fleet) check() error {
	read := t.events
	t.events = nil
	if _, err := t.readEvents(t.nodes[0]); err != nil {
		return err
	}
	if len(t.events) < len(read) {
		return fmt.Errorf("%d events, of %d that were read before", len(t.events), len(read))
	}
	for i, e := range read {
		if now := t.events[i]; now.Type != e.Type || now.Message != e.Message || !now.Time.Equal(e.Time) {
			return fmt.Errorf("event %d is %q, and was %q", e.Seq, now.Message, e.Message)
		}
	}
	n, refused, err := t.adder.check(t.nodes[0])
	t.Say("%d events without a gap, %d tasks that were acknowledged, and %d requests that failed", len(t.events), n,
		refused)
	return err
}

// down stops the fleet from any node, and waits until nothing runs.
func (t *fleet) down() error {
	if _, err := t.nodes[t.rnd.IntN(len(t.nodes))].run("down"); err != nil {
		return err
	}
	return poll(patience, func() error {
		for _, n := range t.nodes {
			daemon, shims, agents := n.pids()
			if len(daemon)+len(shims)+len(agents) > 0 {
				return fmt.Errorf("on node %s these are left: daemons %v, shims %v, agents %v", n.name, daemon, shims,
					agents)
			}
		}
		return t.journal.update()
	})
}

// logs returns the last lines of the logs of all daemons.
func (t *fleet) logs() string {
	var b strings.Builder
	for _, n := range t.nodes {
		text, _ := os.ReadFile(filepath.Join(n.dir, ".coppice", "daemon.log"))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "\nnode %s:\n  %s", n.name, strings.Join(lines[max(0, len(lines)-30):], "\n  "))
	}
	return b.String()
}
