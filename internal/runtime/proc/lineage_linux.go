package proc

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// lineageTries bounds how often a changing chain of parents is read again.
	lineageTries = 100
	// maxLineage bounds the length of the chain; a longer one is inconsistent.
	maxLineage = 10_000
)

var errMoving = errors.New("its parents changed while they were read")

// LineageOf follows the parents of a process. The error wraps os.ErrProcessDone if the process
// has ended.
func LineageOf(pid int) (l Lineage, err error) {
	boot, err := bootID()
	if err != nil {
		return Lineage{}, fmt.Errorf("listing parents of process %d: %w", pid, err)
	}
	for range lineageTries {
		if l.Processes, err = chain(pid, boot); err == nil {
			l.Group = GroupOf(pid)
			return l, nil
		}
		if !errors.Is(err, errMoving) {
			break
		}
	}
	return Lineage{}, fmt.Errorf("listing parents of process %d: %w", pid, err)
}

// chain reads the parents of a process once. When a parent ends, its children get another
// parent, and its pid may be reused. The new process has started later than the child, which no
// parent has.
func chain(pid int, boot string) ([]Identity, error) {
	st, err := readStat(pid)
	if err != nil || st.ended() && !threads(pid) {
		return nil, os.ErrProcessDone
	}
	all := []Identity{{PID: pid, Start: st.start, Boot: boot}}
	for st.parent > 0 && len(all) < maxLineage {
		up, err := readStat(st.parent)
		if err != nil || up.start > st.start {
			return nil, errMoving
		}
		pid, st = st.parent, up
		all = append(all, Identity{PID: pid, Start: st.start, Boot: boot})
	}
	return all, nil
}

// InTree reports whether pid is the leader, in its group, or a descendant of it.
func InTree(pid, leader int) bool {
	for range 1000 { // no chain of parents is that long
		if pid == leader {
			return true
		}
		if pid <= 1 {
			return false
		}
		st, err := readStat(pid)
		if err != nil {
			return false
		}
		if st.group == leader {
			return true
		}
		pid = st.parent
	}
	return false
}

// BelongsTo reports whether a process is another one, a descendant of it, or in its process group or
// session.
func BelongsTo(pid, leader int) bool {
	stats := map[int]procStat{}
	for at := pid; at > 0; {
		st, err := readStat(at)
		if err != nil || stats[at].start != 0 {
			break
		}
		stats[at] = st
		at = st.parent
	}
	return len(owners(pid, stats, map[int]Identity{leader: {PID: leader}})) > 0
}

// GroupOf returns the path of the control group of a process in the unified hierarchy; empty if it has
// none.
func GroupOf(pid int) string {
	b, err := readProc("/proc/"+strconv.Itoa(pid)+"/cgroup", nil)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(b) {
		if path, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			return string(bytes.TrimSuffix(path, []byte("\n")))
		}
	}
	return ""
}

// EnvironmentOf returns the environment that a process was started with; nil if it cannot be
// read.
func EnvironmentOf(pid int) map[string]string {
	entries, err := readEnviron(pid)
	if err != nil {
		return nil
	}
	env := make(map[string]string)
	for entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// execTime bounds the wait for a process that is executing another program.
const execTime = 200 * time.Millisecond

// readEnviron iterates over the environment entries of a process. A zombie has none. The file is also
// empty for a moment while the process executes another program; it is read again then.
func readEnviron(pid int) (iter.Seq[string], error) {
	dir := "/proc/" + strconv.Itoa(pid)
	for begun := time.Now(); ; <-time.After(time.Millisecond) {
		b, err := readProc(dir+"/environ", nil)
		if len(b) > 0 || err != nil || hasNoEnviron(dir) || time.Since(begun) > execTime {
			return strings.SplitSeq(string(b), "\x00"), err
		}
	}
}

// hasNoEnviron reports whether a process certainly has no environment: it has no memory, because it is
// a zombie or a part of the kernel, or it was started with an empty one. A process that is executing
// another program looks like that, too, but is not asleep.
func hasNoEnviron(dir string) bool {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return true
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const first, memory, begin, end = 3, 23, 50, 51 // fields, see proc_pid_stat(5); the name was cut off
	if len(f) <= end-first {
		return true
	}
	state, at := string(f[0]), string(f[begin-first])
	return string(f[memory-first]) == "0" ||
		state != "R" && state != "D" && at != "0" && at == string(f[end-first])
}
