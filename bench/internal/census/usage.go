//go:build linux

package census

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Supervisors returns the processes of the fleet that are no agents: lead, the ancestors of lead
// and of agents as far as they began after the census, and all that descends from these.
func (c *Census) Supervisors(lead int) ([]int, error) {
	if _, err := c.Count(); err != nil {
		return nil, err
	}
	parent := map[int]int{}
	for pid, s := range c.seen {
		if s == foreign {
			continue
		}
		fields, err := stat(pid)
		if err == nil {
			parent[pid], err = strconv.Atoi(fields[1])
		}
		if err != nil && !ended(err) {
			return nil, err
		}
	}
	supervises := map[int]bool{}
	for _, pid := range append(c.Agents(), lead) {
		for parent[pid] != 0 && !supervises[pid] {
			supervises[pid] = true
			pid = parent[pid]
		}
	}
	var pids []int
	for pid := range parent {
		if c.seen[pid] == agent || c.seen[pid] == killed {
			continue
		}
		for ancestor := pid; ancestor != 0; ancestor = parent[ancestor] {
			if supervises[ancestor] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}

// CPU returns the processor time that processes have used since they began, in steps of 10 ms for
// each of them.
func CPU(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		fields, err := stat(pid)
		if err != nil {
			return 0, err
		}
		user, err1 := strconv.Atoi(fields[11])
		system, err2 := strconv.Atoi(fields[12])
		if err := errors.Join(err1, err2); err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		sum += time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on all that Go runs on
	}
	return sum, nil
}

// Memory returns the MB of memory in which processes are resident. In rss a page that several
// processes share counts for each of them, in pss each has its part of it.
func Memory(pids []int) (rss, pss float64, err error) {
	for _, pid := range pids {
		kb, err := kilobytes(procFile(pid, "smaps_rollup"), "Rss:", "Pss:")
		if err != nil {
			return 0, 0, err
		}
		rss, pss = rss+float64(kb[0])/1024, pss+float64(kb[1])/1024
	}
	return rss, pss, nil
}

// stat returns the fields of /proc/PID/stat after the name, the state first.
func stat(pid int) ([]string, error) {
	file := procFile(pid, "stat")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 15 {
		return nil, fmt.Errorf("%s: %.200q", file, b)
	}
	return fields, nil
}

// kilobytes reads lines such as "Pss: 123 kB". It reads the file once, since a process changes all the time.
func kilobytes(file string, names ...string) ([]int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	kb := make([]int, len(names))
	for i, name := range names {
		_, rest, ok := strings.Cut("\n"+string(b), "\n"+name)
		if !ok {
			return nil, fmt.Errorf("%s has no %s", file, name)
		}
		rest, _, _ = strings.Cut(rest, "\n")
		if kb[i], err = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB"))); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	return kb, nil
}
