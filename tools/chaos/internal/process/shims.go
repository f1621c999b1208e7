package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Shims returns the shims of the agents of a project.
func Shims(dir string) (all []int) {
	for pid, argv := range All() {
		if len(argv) > 2 && argv[1] == "shim" && argv[2] == "run" && IsInside(pid, dir) {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	// What a shim has forked looks like it until it executes its command.
	forked := func(pid int) bool { return slices.Contains(all, Parent(pid)) }
	return slices.DeleteFunc(slices.Clone(all), forked)
}

// IsInside reports whether the working directory of a process is in a project's.
func IsInside(pid int, dir string) bool {
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && (at == dir || strings.HasPrefix(at, dir+"/"))
}

// StopShims stops shims by SIGSTOP: then they start nothing. It returns those that had not ended, and the command
// lines of all processes.
func StopShims(shims ...int) (stopped []int, all map[int][]string, err error) {
	for _, shim := range shims {
		if syscall.Kill(shim, syscall.SIGSTOP) != nil {
			continue // it has just ended
		}
		if err := waitStopped(shim); err != nil {
			return nil, nil, err
		}
		if State(shim) != "T" {
			continue // it has ended meanwhile, as one does whose daemon was killed before it had an agent
		}
		stopped = append(stopped, shim)
	}
	for range 6000 {
		all = All()
		starts := 0
		for pid, argv := range all {
			// A process that is executing its program has no command line for a moment.
			if len(argv) == 1 && argv[0] == "" && slices.Contains(stopped, Parent(pid)) && State(pid) != "Z" {
				starts++
			}
		}
		if starts == 0 {
			return stopped, all, nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil, nil, errors.New("a process that a shim has started does not get its command line")
}

// waitStopped waits until no thread of a process runs.
func waitStopped(pid int) error {
	for range 6000 {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if !slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			return err == nil && !strings.Contains(string(stat), ") T ") && !zombie(stat)
		}) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("process %d does not stop", pid)
}
