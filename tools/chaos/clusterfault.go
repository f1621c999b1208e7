package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/election"
)

// clusterFault is what happens in a round. strike returns when the fault is over.
type clusterFault struct {
	name string
	// moves means that another node takes over, and stays that none does. starts is how often an agent may be started.
	moves, stays bool
	starts       int
	strike       func(t *clusterTrial, leader, other *clusterNode) error
}

// clusterFaults has those first that matter most.
var clusterFaults = []clusterFault{
	{"kill of the controller's daemon and shims", true, false, 1, func(t *clusterTrial, leader, _ *clusterNode) error {
		if err := leader.kill(true); err != nil {
			return err
		}
		return t.movedThen(leader, leader.up)
	}},
	{"cut of the controller's node", true, false, 1, func(t *clusterTrial, leader, _ *clusterNode) error {
		if err := t.net.cut(leader.index, true); err != nil {
			return err
		}
		return t.movedThen(leader, func() error { return t.net.cut(leader.index, false) })
	}},
	{"pause of the controller's machine", true, false, 1, pauseLeader},
	{"SIGTERM to the controller", true, false, 1, func(t *clusterTrial, leader, _ *clusterNode) error {
		if err := leader.terminate(); err != nil {
			return err
		}
		return t.movedThen(leader, leader.up)
	}},
	{"kill of the controller's daemon alone", false, true, 0, func(_ *clusterTrial, leader, _ *clusterNode) error {
		if err := leader.kill(false); err != nil {
			return err
		}
		return leader.up()
	}},
	{"kill of a standby node", false, true, 0, func(_ *clusterTrial, _, other *clusterNode) error {
		if err := other.kill(false); err != nil {
			return err
		}
		return other.up()
	}},
	{"cut of a standby node", false, true, 0, func(t *clusterTrial, _, other *clusterNode) error {
		return t.during(0, 2*election.DefaultTTL, func(off bool) error { return t.net.cut(other.index, off) })
	}},
	{"cut of a member of etcd", false, true, 0, func(t *clusterTrial, _, _ *clusterNode) error {
		member := t.rnd.IntN(members)
		return t.during(0, 2*election.DefaultTTL, func(off bool) error { return t.net.cutMember(member, off) })
	}},
	{"kill of a member of etcd", false, true, 0, func(t *clusterTrial, _, _ *clusterNode) error {
		member := t.rnd.IntN(members)
		return t.during(0, election.DefaultTTL, func(off bool) error {
			if off {
				t.net.kill(member)
				return nil
			}
			return t.net.start(member)
		})
	}},
	{"kill of the controller's daemon and shims, which is back at once", false, false, 1,
		func(_ *clusterTrial, leader, _ *clusterNode) error {
			if err := leader.kill(true); err != nil {
				return err
			}
			return leader.up()
		}},
	{"short cut of the controller's node", false, true, 0, func(t *clusterTrial, leader, _ *clusterNode) error {
		return t.during(0, election.DefaultTTL/3, func(off bool) error { return t.net.cut(leader.index, off) })
	}},
}

// nextFault returns a fault, and the name of the one after it.
func (t *clusterTrial) nextFault() (f clusterFault, next string) {
	i := slices.IndexFunc(clusterFaults, func(f clusterFault) bool { return f.name == t.first })
	return clusterFaults[i], clusterFaults[(i+1)%len(clusterFaults)].name
}

// during begins something, and ends it after a random time.
func (t *clusterTrial) during(least, most time.Duration, set func(on bool) error) error {
	if err := set(true); err != nil {
		return err
	}
	time.Sleep(least + time.Duration(t.rnd.Int64N(int64(most-least))))
	return set(false)
}

// movedThen waits until all agents run on another node, and then does what brings back the one that was lost.
func (t *clusterTrial) movedThen(lost *clusterNode, back func() error) error {
	err := poll(patience, func() error {
		on, err := t.journal.running(t.agents)
		if err == nil && on == lost.name {
			err = fmt.Errorf("all agents run on node %s", on)
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
func pauseLeader(t *clusterTrial, leader, _ *clusterNode) error {
	paused, err := leader.pause()
	if err != nil {
		return err
	}
	t.eras++
	old := make([]int, 0, t.agents)
	for _, l := range t.journal.last {
		old = append(old, l.pid)
	}
	if err := t.journal.newEra(t.eras); err != nil {
		return err
	}
	return t.movedThen(leader, func() error {
		resumed := time.Now()
		if err := resume(paused); err != nil {
			return err
		}
		for _, pid := range old {
			if err := waitGone(pid); err != nil {
				return fmt.Errorf("of an agent that was paused: %w", err)
			}
		}
		t.times.add("pause of the controller's machine", "old agents", time.Since(resumed))
		return nil
	})
}
