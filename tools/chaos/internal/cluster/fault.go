package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/election"
	"github.com/coppice-dev/coppice/tools/chaos/internal/network"
	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
)

// fault is a kind of failure, one for each round. strike returns when it is over.
type fault struct {
	name string
	// moves means that another node takes over, and stays that none does. starts is how often an agent may be started.
	moves, stays bool
	starts       int
	standby      bool // it strikes the node that stands by
	strike       func(t *fleet, leader, other *node) error
}

// faults has those first that matter most.
var faults = []fault{
	{name: "kill of the controller's daemon and shims", moves: true, starts: 1,
		strike: func(t *fleet, leader, _ *node) error {
			if err := leader.kill(true); err != nil {
				return err
			}
			return t.goneThen(leader, leader.up)
		}},
	{name: "cut of the controller's node", moves: true, starts: 1,
		strike: func(t *fleet, leader, _ *node) error {
			if err := t.net.Cut(leader.index, true); err != nil {
				return err
			}
			return t.goneThen(leader, func() error { return t.net.Cut(leader.index, false) })
		}},
	{name: "pause of the controller's machine", moves: true, starts: 1, strike: pauseLeader},
	{name: "kill of the daemon and shims of a standby node", stays: true, starts: 1, standby: true,
		strike: func(t *fleet, _, other *node) error {
			if err := other.kill(true); err != nil {
				return err
			}
			return t.goneThen(other, other.up)
		}},
	{name: "SIGTERM to the controller", moves: true, starts: 1,
		strike: func(t *fleet, leader, _ *node) error {
			if err := leader.terminate(); err != nil {
				return err
			}
			return t.goneThen(leader, leader.up)
		}},
	{name: "SIGTERM to a standby node", stays: true, starts: 1, standby: true,
		strike: func(t *fleet, _, other *node) error {
			if err := other.terminate(); err != nil {
				return err
			}
			return t.goneThen(other, other.up)
		}},
	{name: "kill of the controller's daemon alone", stays: true,
		strike: func(_ *fleet, leader, _ *node) error {
			if err := leader.kill(false); err != nil {
				return err
			}
			return leader.up()
		}},
	{name: "kill of a standby node's daemon alone", stays: true, standby: true,
		strike: func(_ *fleet, _, other *node) error {
			if err := other.kill(false); err != nil {
				return err
			}
			return other.up()
		}},
	{name: "cut of a standby node", stays: true, starts: 1, standby: true,
		strike: func(t *fleet, _, other *node) error {
			return t.during(0, 2*election.DefaultTTL, func(off bool) error { return t.net.Cut(other.index, off) })
		}},
	{name: "cut of a member of etcd", stays: true,
		strike: func(t *fleet, _, _ *node) error {
			member := t.rnd.IntN(network.Members)
			return t.during(0, 2*election.DefaultTTL, func(off bool) error { return t.net.CutMember(member, off) })
		}},
	{name: "kill of a member of etcd", stays: true,
		strike: func(t *fleet, _, _ *node) error {
			member := t.rnd.IntN(network.Members)
			return t.during(0, election.DefaultTTL, func(off bool) error {
				if off {
					t.net.Kill(member)
					return nil
				}
				return t.net.Start(member)
			})
		}},
	{name: "kill of the controller's daemon and shims, which is back at once", starts: 1,
		strike: func(_ *fleet, leader, _ *node) error {
			if err := leader.kill(true); err != nil {
				return err
			}
			return leader.up()
		}},
	{name: "short cut of the controller's node", stays: true,
		strike: func(t *fleet, leader, _ *node) error {
			return t.during(0, election.DefaultTTL/3, func(off bool) error { return t.net.Cut(leader.index, off) })
		}},
}

// nextFault returns a fault, and the name of the one after it.
func (t *fleet) nextFault() (f fault, next string) {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == t.First })
	return faults[i], faults[(i+1)%len(faults)].name
}

// during begins something, and ends it after a random time.
func (t *fleet) during(least, most time.Duration, set func(on bool) error) error {
	if err := set(true); err != nil {
		return err
	}
	time.Sleep(least + time.Duration(t.rnd.Int64N(int64(most-least))))
	return set(false)
}

// goneThen waits until all agents run, and none on a node that was lost, and then does what brings that back.
func (t *fleet) goneThen(lost *node, back func() error) error {
	err := poll(patience, func() error {
		err := t.journal.running(t.Agents)
		if n := t.journal.on(lost.name); err == nil && n > 0 {
			err = fmt.Errorf("%d agents run on node %s", n, lost.name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return back()
}

// pauseLeader stops all processes of the controller's machine until others have taken over. The time that the old
// agents live on is one that nothing can prevent.
func pauseLeader(t *fleet, leader, _ *node) error {
	paused, err := leader.pause()
	if err != nil {
		return err
	}
	t.eras++
	old := make([]int, 0, t.Agents)
	for _, l := range t.journal.last {
		if l.node == leader.name {
			old = append(old, l.pid)
		}
	}
	if err := t.journal.newEra(t.eras); err != nil {
		return err
	}
	return t.goneThen(leader, func() error {
		resumed := time.Now()
		if err := resume(paused); err != nil {
			return err
		}
		for _, pid := range old {
			if err := process.AwaitEnd(pid); err != nil {
				return fmt.Errorf("of an agent that was paused: %w", err)
			}
		}
		t.times.add("pause of the controller's machine", "old agents", time.Since(resumed))
		return nil
	})
}
