//go:build linux

// Package census counts the agents of a fleet in /proc, from outside of what supervises them, so
// that all supervisors are seen in the same way. It also finds the processes that supervise, and
// what they use.
package census

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLimit is in the errors of Await that say that a fleet does not fit into the time or the machine.
var ErrLimit = errors.New("limit of the measurement")

// share is the part of the time that counting may take: one of so many. The processor that it
// uses is missing to what is measured.
const share = 10

// Census counts the agents of one fleet. It is for one goroutine.
type Census struct {
	// Agent is the command line of all agents, which no other process has.
	Agent []string

	cmdline []byte
	seen    map[int]status
	buf     []byte
}

type status uint8

const (
	foreign status = iota + 1 // ran before the fleet
	unknown                   // may become an agent: a process between fork and exec is like its parent
	other                     // was no agent at a time when all ran
	agent
	killed
)

// New begins a census. Processes that run already are not part of the fleet.
func New() (*Census, error) {
	mark := fmt.Sprintf("1000000.%06d", rand.IntN(1_000_000))
	c := &Census{Agent: []string{"sleep", mark}, cmdline: []byte("sleep\x00" + mark + "\x00"), seen: map[int]status{},
		buf: make([]byte, 256)}
	pids, err := processes()
	for _, pid := range pids {
		c.seen[pid] = foreign
	}
	return c, err
}

// processes lists the ids of all processes.
func processes() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// Count returns how many agents run.
func (c *Census) Count() (int, error) {
	pids, err := processes()
	if err != nil {
		return 0, err
	}
	now, running := make(map[int]status, len(pids)), 0
	for _, pid := range pids {
		s := c.seen[pid]
		if s == 0 || s == unknown {
			s = unknown
			if c.isAgent(pid) {
				s = agent
			}
		}
		if s == agent {
			running++
		}
		now[pid] = s
	}
	c.seen = now
	return running, nil
}

// isAgent reads the command line of a process, which is empty if it has ended.
func (c *Census) isAgent(pid int) bool {
	// Not os.ReadFile, which uses three more system calls for each of thousands of files.
	fd, err := unix.Open(procFile(pid, "cmdline"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	n, err := unix.Read(fd, c.buf)
	unix.Close(fd)
	// The file of the program may be named with its directory.
	return err == nil && bytes.Equal(c.buf[bytes.LastIndexByte(c.buf[:n], '/')+1:n], c.cmdline)
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// Await counts until exactly n agents run, and returns the first error of alive, which it calls
// before each time. If that takes longer than limit, or the machine has no room for more, the
// error is an ErrLimit.
func (c *Census) Await(n int, limit time.Duration, alive func() error) error {
	begun := time.Now()
	for {
		if err := errors.Join(alive(), room()); err != nil {
			return err
		}
		before := time.Now()
		running, err := c.Count()
		if err != nil {
			return err
		}
		if running == n {
			c.settle()
			return nil
		}
		if time.Since(begun) > limit {
			return fmt.Errorf("%w: %d of %d agents run after %v", ErrLimit, running, n, limit)
		}
		time.Sleep(max(time.Millisecond, (share-1)*time.Since(before)))
	}
}

// settle makes later counts cheap: when all agents run, no other process is about to become one.
func (c *Census) settle() {
	for pid, s := range c.seen {
		if s == unknown {
			c.seen[pid] = other
		}
	}
}

// Agents returns the process ids of the agents of the last count, in no order.
func (c *Census) Agents() []int {
	var pids []int
	for pid, s := range c.seen {
		if s == agent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill sends SIGKILL to an agent, which no longer counts.
func (c *Census) Kill(pid int) error {
	if c.seen[pid] != agent {
		return fmt.Errorf("process %d is no agent", pid)
	}
	c.seen[pid] = killed
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("killing agent %d: %w", pid, err)
	}
	return nil
}

// KillAll sends SIGKILL to all that supervises, as Supervisors knows it, and then to all agents.
func (c *Census) KillAll(lead int) error {
	pids, err := c.Supervisors(lead)
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	_, err2 := c.Count()
	for _, pid := range c.Agents() {
		c.Kill(pid)
	}
	return errors.Join(err, err2)
}

// room fails while the machine has little memory or few process ids left: what is measured then
// is the machine, and others on it suffer.
func room() error {
	const least = 1 << 20 // kB of memory
	free, err := kilobytes("/proc/meminfo", "MemAvailable:")
	if err != nil {
		return err
	}
	if free[0] < least {
		return fmt.Errorf("%w: the machine has only %d MB of memory left", ErrLimit, free[0]>>10)
	}
	var load [3]string
	var running, tasks, most int
	if err := scan("/proc/loadavg", "%s %s %s %d/%d", &load[0], &load[1], &load[2], &running, &tasks); err != nil {
		return err
	}
	if err := scan("/proc/sys/kernel/pid_max", "%d", &most); err != nil {
		return err
	}
	if tasks > most/10*9 {
		return fmt.Errorf("%w: %d processes and threads, the machine allows %d", ErrLimit, tasks, most)
	}
	return nil
}

func scan(file, format string, values ...any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(string(text), format, values...); err != nil {
		return fmt.Errorf("%s %.100q: %w", filepath.Clean(file), text, err)
	}
	return nil
}

// ended reports whether a file of a process could not be read because the process has ended.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
