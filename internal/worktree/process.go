package worktree

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processIn returns a process whose working directory is a directory or below it, and 0 if there is
// none that this user may see. Where there is no /proc, it finds none.
func processIn(dir string) (pid int) {
	return findProcess(func(proc string) bool {
		at, err := os.Readlink(filepath.Join(proc, "cwd"))
		return err == nil && (at == dir || strings.HasPrefix(at, dir+"/"))
	})
}

// isOpen reports whether a process has a file open. It returns true if that is unknown.
func isOpen(name string) bool {
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		return true
	}
	return findProcess(func(proc string) bool {
		fds, _ := os.ReadDir(filepath.Join(proc, "fd"))
		for _, fd := range fds {
			if at, err := os.Readlink(filepath.Join(proc, "fd", fd.Name())); err == nil && at == name {
				return true
			}
		}
		return false
	}) != 0
}

// findProcess returns the first process for whose directory in /proc does returns true; 0 if there is none.
func findProcess(does func(proc string) bool) int {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && does(filepath.Join("/proc", e.Name())) {
			return pid
		}
	}
	return 0
}
