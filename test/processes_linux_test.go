package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const canSeeProcesses = true

// process is a process, identified by a pidfd.
type process struct {
	pid   int
	name  string
	pidfd int
}

// processesIn finds the processes whose working directory is dir.
func processesIn(t *testing.T, dir string) []process {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []process
	for _, link := range links {
		if at, err := os.Readlink(link); err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue // it does not exist, or is not ours
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		t.Cleanup(func() { unix.Close(fd) })
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		name := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		if name == "" {
			continue // it has ended, or is ending
		}
		found = append(found, process{pid, name, fd})
	}
	return found
}

// awaitEnd fails the test unless the process ends soon.
func (p process) awaitEnd(t *testing.T) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for end := time.Now().Add(5 * time.Second); ; {
		n, err := unix.Poll(fds, int(max(0, time.Until(end).Milliseconds())))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Errorf("process %d has been left behind: %s", p.pid, p.name)
		}
		return
	}
}

func (p process) kill() { unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) }
