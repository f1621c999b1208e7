// Package process reads what /proc tells of processes, and finds and stops those of a project.
package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// All returns the command lines of all processes.
func All() map[int][]string {
	all := map[int][]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all[pid] = Argv(pid)
		}
	}
	return all
}

// Argv returns the command line of a process; an empty word if it is gone.
func Argv(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(string(bytes.TrimSuffix(text, []byte{0})), "\x00")
}

// Children returns the children of a process.
func Children(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(field)
			all = append(all, child)
		}
	}
	return all
}

// Parent returns the parent of a process; 0 if it has gone.
func Parent(pid int) int {
	_, parent := statOf(pid)
	return parent
}

// State returns the state of a process, such as Z; empty if it is gone.
func State(pid int) string {
	state, _ := statOf(pid)
	return state
}

func statOf(pid int) (state string, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent)
	return state, parent
}

// AwaitEnd waits until a process that is not our child has ended.
func AwaitEnd(pid int) error {
	for range 6000 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || zombie(text) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("process %d does not end", pid)
}

// zombie: somebody else has yet to collect it, but it runs no more.
func zombie(stat []byte) bool {
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' {
			return i+2 < len(stat) && stat[i+2] == 'Z'
		}
	}
	return false
}
