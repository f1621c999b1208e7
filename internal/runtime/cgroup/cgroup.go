// Package cgroup limits and kills an agent with everything that it has ever started. A process
// that is created in a control group stays in it, whatever it does to its parents, session,
// environment or descriptors.
//
// It works if the unified hierarchy (cgroup v2) is delegated to this user. Groups are created
// next to that of the daemon if its name is Leaf, or else below it. Killing works in both cases.
//
// Limits need the controllers, which the kernel gives only to the children of a group without
// processes of its own. That takes a Leaf (DelegateSubgroup= of systemd 254), the root of all
// groups, or a daemon that is alone in its group and moves itself into a Leaf. It does not do so
// below systemd: a unit with enabled controllers cannot be started again while one of its agents
// runs.
//
// An agent that runs as the same user can leave its group on purpose.
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

// ErrUnavailable means that this user cannot have control groups here. It is wrapped with the
// reason.
var ErrUnavailable = errors.New("control groups are not available")

// minProcesses is the smallest limit of processes. The kernel counts threads, and the program
// that sets the other limits before the agent runs has some.
const minProcesses = 16

// cpuPeriod is the period of a quota of processor time.
const cpuPeriod = 100 * time.Millisecond

// setting is a value for a file of a group.
type setting struct {
	file, value string
	optional    bool // not all kernels have the file
}

// settings returns the values that set limits; zero removes a limit. It skips missing
// controllers, whose limits are not in enforced.
func settings(l runtime.Limits, has controllers) (list []setting, enforced runtime.Limits) {
	if has&memory != 0 {
		enforced.Memory = max(0, l.Memory)
		group, swap := "0", "max"
		if l.Memory > 0 {
			// Kill all processes or none: half an agent is useless. No swap, because reaching a
			// limit by swapping stops the machine.
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
		if n > 1<<22 { // more than is possible
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
