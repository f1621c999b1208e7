package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// procStat holds the fields of /proc/PID/stat that are used here (proc_pid_stat(5)).
type procStat struct {
	state                  byte   // field 3
	parent, group, session int    // fields 4 to 6
	cpu                    uint64 // fields 14 and 15: in user mode and in the kernel, in ticks
	start                  uint64 // field 22
	resident               uint64 // field 24: pages
}

// parseStat parses the content of /proc/PID/stat. The second field, the name in parentheses, is
// chosen by the program and may contain blanks, parentheses and newlines. The other fields begin
// after the last ")".
func parseStat(text string) (procStat, error) {
	i := strings.LastIndexByte(text, ')')
	var f [22]string
	n := 0
	for field := range strings.FieldsSeq(text[i+1:]) {
		f[n] = field
		if n++; n == len(f) {
			break
		}
	}
	if i < 0 || n < len(f) || len(f[0]) != 1 {
		return procStat{}, fmt.Errorf("not a process status: %.200q", text)
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	session, err3 := strconv.Atoi(f[3])
	user, err4 := strconv.ParseUint(f[11], 10, 64)
	system, err5 := strconv.ParseUint(f[12], 10, 64)
	start, err6 := strconv.ParseUint(f[19], 10, 64)
	resident, err7 := strconv.ParseInt(f[21], 10, 64)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return procStat{}, fmt.Errorf("not a process status: %w", err)
	}
	return procStat{
		state: f[0][0], parent: parent, group: group, session: session,
		cpu: user + system, start: start, resident: uint64(max(0, resident)),
	}, nil
}

// ended reports whether the first thread has ended. Other threads may still run.
func (s procStat) ended() bool { return s.state == 'Z' || s.state == 'X' }

// threads reports whether a process whose first thread has ended has others.
func threads(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tids, _ := readNumbers(dir)
	for _, tid := range tids {
		if st, err := readStatFile(dir + "/" + strconv.Itoa(tid) + "/stat"); err == nil && !st.ended() {
			return true
		}
	}
	return false
}

func readStat(pid int) (procStat, error) {
	return readStatFile("/proc/" + strconv.Itoa(pid) + "/stat")
}

func readStatFile(file string) (procStat, error) {
	// Not os.ReadFile, which makes twice as many system calls.
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return procStat{}, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	defer syscall.Close(fd)
	var buf [1 << 10]byte // a status is shorter than 400 bytes
	n, err := syscall.Read(fd, buf[:])
	if err != nil {
		return procStat{}, &fs.PathError{Op: "read", Path: file, Err: err}
	}
	st, err := parseStat(string(buf[:n]))
	if err != nil {
		return procStat{}, fmt.Errorf("%s: %w", file, err)
	}
	return st, nil
}

// BootID returns the boot id, which cannot change while this process runs.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// Identify returns the identity of the process that has this pid now.
func Identify(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	st, err := readStat(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	return Identity{PID: pid, Start: st.start, Boot: boot}, nil
}

// Observe reports whether the process still runs. Dead needs proof: a process may be missing in
// /proc because of hidepid, or because /proc is not mounted.
func Observe(id Identity) Observation {
	if id.PID <= 0 {
		return Dead
	}
	boot, err := bootID()
	if err != nil {
		return Unknown
	}
	if boot != id.Boot {
		return Dead
	}
	st, err := readStat(id.PID)
	switch {
	case err == nil && (st.start != id.Start || st.ended() && !threads(id.PID)):
		return Dead
	case err == nil:
		return Alive
	case syscall.Kill(id.PID, 0) == syscall.ESRCH:
		return Dead
	}
	return Unknown
}

// Ended reports whether Observe returns Dead. While the process runs, it costs a tenth of that.
// It is false while another process has the pid, which a parent that has not reaped the process
// prevents.
func (id Identity) Ended() bool {
	if fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK); err == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		unix.Close(fd)
		if err == nil && n == 0 {
			return false
		}
	}
	return Observe(id) == Dead
}

// Signal sends a signal to this process, never to another one that got its pid. It returns
// os.ErrProcessDone if the process has ended.
func (id Identity) Signal(sig syscall.Signal) error {
	// The pidfd is opened first, so that it refers to the process that is observed after that.
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if errors.Is(err, syscall.ESRCH) || id.PID <= 0 {
		return os.ErrProcessDone
	}
	switch Observe(id) {
	case Dead:
		return os.ErrProcessDone
	case Unknown:
		return fmt.Errorf("signaling process %d: its identity is unknown", id.PID)
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else { // no pidfds before Linux 5.3
		err = syscall.Kill(id.PID, sig)
	}
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// descendants walks /proc/PID/task/TID/children, whose cost depends on the number of descendants
// only. On kernels without these files it searches all processes.
func descendants(pid int) ([]member, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("listing descendants of process %d: %w", pid, err)
	}
	children, err := childFinder()
	if err != nil {
		return nil, fmt.Errorf("listing descendants of process %d: %w", pid, err)
	}
	var family []member
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children(queue[0]) {
			if seen[c] {
				continue
			}
			seen[c] = true
			st, err := readStat(c)
			if err != nil {
				continue // it has ended meanwhile
			}
			family = append(family, member{Identity{PID: c, Start: st.start, Boot: boot}, st.group})
			queue = append(queue, c)
		}
	}
	return family, nil
}

// childFinder returns a function that lists the children of a process.
func childFinder() (func(pid int) []int, error) {
	if _, err := os.Stat("/proc/thread-self/children"); err == nil {
		return childrenOf, nil
	}
	all, err := parents()
	return func(pid int) []int { return all[pid] }, err
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, _ := readNumbers(dir)
	var pids []int
	var buf [1 << 10]byte
	for _, t := range threads {
		b, _ := readProc(dir+"/"+strconv.Itoa(t)+"/children", buf[:])
		for f := range bytes.FieldsSeq(b) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// parents lists the children of every process.
func parents() (map[int][]int, error) {
	pids, err := PIDs()
	all := make(map[int][]int, len(pids))
	for pid, st := range readStats(pids) {
		all[st.parent] = append(all[st.parent], pid)
	}
	return all, err
}

// readStats reads the status of some processes; those that have ended are missing.
func readStats(pids []int) map[int]procStat {
	stats := make(map[int]procStat, len(pids))
	for _, pid := range pids {
		if st, err := readStat(pid); err == nil {
			stats[pid] = st
		}
	}
	return stats
}

// ancestry iterates over a process, its parent, the parent of that, and so on, for those that
// are in stats. It always ends, even if pids were reused while stats was read.
func ancestry(pid int, stats map[int]procStat) iter.Seq2[int, procStat] {
	return func(yield func(int, procStat) bool) {
		for range len(stats) {
			st, known := stats[pid]
			if !known || !yield(pid, st) {
				return
			}
			pid = st.parent
		}
	}
}

// PIDs lists the ids of all processes.
func PIDs() ([]int, error) { return readNumbers("/proc") }

// Family lists a running process and all that belong to it: its descendants, and the members of its
// process group and session even if their parents have ended. A process in another session
// without a running parent is not found.
func Family(id Identity) []Identity { return Families([]Identity{id}) }

// Families lists those that are Family of several processes.
func Families(all []Identity) []Identity {
	heads := make(map[int]Identity)
	for _, id := range all {
		if Observe(id) == Alive {
			heads[id.PID] = id
		}
	}
	pids, err := PIDs()
	if err != nil || len(heads) == 0 {
		return nil
	}
	stats := readStats(pids)
	headOf := func(pid int) (head Identity, ok bool) {
		for pid, st := range ancestry(pid, stats) {
			for _, of := range []int{pid, st.group, st.session} {
				if head, ok = heads[of]; ok {
					return head, true
				}
			}
		}
		return head, false
	}
	kin := make(map[int][]Identity) // by the pid of the head
	for pid, st := range stats {
		if head, ok := headOf(pid); ok && pid != head.PID && (!st.ended() || threads(pid)) {
			kin[head.PID] = append(kin[head.PID], Identity{PID: pid, Start: st.start, Boot: head.Boot})
		}
	}
	var found []Identity
	for pid, head := range heads {
		if Observe(head) == Alive { // its pid may have been reused while stats was read
			found = append(append(found, head), kin[pid]...)
		}
	}
	return found
}

// Doing describes in a few words what a process does now; "" if unknown.
func Doing(pid int) string {
	st, err := readStat(pid)
	if err != nil {
		return ""
	}
	return map[byte]string{
		'R': "running", 'S': "sleeping", 'D': "waiting for a device", 'I': "idle",
		'T': "stopped by a signal (state T)", 't': "stopped by a debugger (state t)",
		'Z': "ended, and not yet collected",
	}[st.state]
}
