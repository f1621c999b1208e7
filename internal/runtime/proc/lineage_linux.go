package proc

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
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
			l.Group = groupOf(pid)
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

// groupOf returns the control group of a process in the unified hierarchy.
func groupOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
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

// readEnviron iterates over the environment entries of a process. A zombie has none.
func readEnviron(pid int) (iter.Seq[string], error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return strings.SplitSeq(string(b), "\x00"), err
}
