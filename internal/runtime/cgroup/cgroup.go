// Package cgroup bounds and ends an agent as a whole, with everything that it
// has ever started: a process born in a control group stays in it, whatever
// it does to its parents, session, environment or descriptors.
//
// It works where the unified hierarchy (cgroup v2) is delegated to this user.
// Groups are made beside the one that the daemon is in, if that is named Leaf,
// or else below it. Killing works in both cases. Limits need the controllers,
// and the kernel gives those only to the children of a group that has no
// processes of its own: that takes a Leaf (DelegateSubgroup= of systemd 254),
// the root of all groups, or a daemon that is alone in its group and moves
// itself into a Leaf. It does not do so below systemd: a unit with enabled
// controllers cannot be started again while one of its agents lives.
//
// An agent that runs as the same user can leave its group on purpose, if it
// knows of control groups.
package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Leaf is the name of the group of the daemon and its shims.
const Leaf = "coppice-daemon"

// Prefix begins the names of all groups of agents.
const Prefix = "coppice-"

// ErrUnavailable: there are no control groups here for this user. What it is
// wrapped in says why.
var ErrUnavailable = errors.New("control groups are not available")

// minProcesses is the least limit of processes: the kernel counts threads, and
// what sets the other limits before the agent runs has some.
const minProcesses = 16

// cpuPeriod is over what time processor time is shared out.
const cpuPeriod = 100 * time.Millisecond

// setting is what a controller is told in a file of a group.
type setting struct {
	file, value string
	optional    bool // not all kernels have the file
}

// settings translates limits; zero lifts a limit. Of controllers that are
// missing nothing is said, and enforced does not have their limits.
func settings(l runtime.Limits, has controllers) (list []setting, enforced runtime.Limits) {
	if has&memory != 0 {
		enforced.Memory = max(0, l.Memory)
		group, swap := "0", "max"
		if l.Memory > 0 {
			// All of it ends or nothing: half an agent is none. Without swap,
			// because a limit that is reached by swapping stops the machine.
			group, swap = "1", "0"
		}
		list = append(list,
			setting{file: "memory.oom.group", value: group, optional: true},
			setting{file: "memory.swap.max", value: swap, optional: true},
			setting{file: "memory.max", value: number(uint64(enforced.Memory))})
	}
	if has&cpu != 0 {
		quota := "max"
		if l.CPU > 0 {
			enforced.CPU = l.CPU
			// The kernel takes 1 ms to 2^44 µs.
			quota = number(uint64(min(max(l.CPU*float64(cpuPeriod.Microseconds()), 1000), 1<<43)))
		}
		list = append(list, setting{file: "cpu.max", value: fmt.Sprint(quota, " ", cpuPeriod.Microseconds())})
	}
	if has&pids != 0 {
		n := l.Processes
		if enforced.Processes = n; n > 0 {
			n = max(n, minProcesses)
		}
		if n > 1<<22 { // more than there can be
			n = 0
		}
		list = append(list, setting{file: "pids.max", value: number(n)})
	}
	return list, enforced
}

func number(n uint64) string {
	if n == 0 {
		return "max"
	}
	return fmt.Sprint(n)
}

// controllers is a set of controllers of control groups.
type controllers uint8

const (
	memory controllers = 1 << iota
	cpu
	pids
)

// controllerNames holds the names of the controllers in the order of their bits.
var controllerNames = [...]string{"memory", "cpu", "pids"}

// parseControllers reads the content of cgroup.controllers or cgroup.subtree_control.
func parseControllers(text string) (c controllers) {
	for name := range strings.FieldsSeq(text) {
		if i := slices.Index(controllerNames[:], name); i >= 0 {
			c |= 1 << i
		}
	}
	return c
}

// names returns the names of the controllers in the set.
func (c controllers) names() (names []string) {
	for i, name := range controllerNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// missing returns the controllers that are not in the set.
func (c controllers) missing() controllers { return (memory | cpu | pids) &^ c }

// valid refuses names that would lead elsewhere or mean something to the kernel.
func valid(name string) error {
	if !strings.HasPrefix(name, Prefix) || name == Leaf || len(name) > 255 || strings.ContainsAny(name, "/\n\x00") {
		return fmt.Errorf("%.300q cannot be the name of an agent's control group", name)
	}
	return nil
}
