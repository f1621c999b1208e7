package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// maxArguments bounds the part of an argument vector that is searched for names.
const maxArguments = 4 << 10

// Programs returns the names of the programs that run in each of some processes and in all that
// belongs to it (see Family). Names are those of the kernel, of at most 15 bytes, and the last
// segments of the first two arguments, since many programs are run by an interpreter. Processes
// that have ended or cannot be read are missing. It reads the list of processes once.
func Programs(ids []Identity) (map[Identity][]string, error) {
	pids, err := PIDs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	stats := readStats(pids)
	byPID := make(map[int]Identity, len(ids))
	for _, id := range ids {
		byPID[id.PID] = id
	}
	found := make(map[Identity][]string, len(ids))
	faults := make(map[Identity]bool)
	for pid, st := range stats {
		if st.ended() {
			continue
		}
		for owner := range owners(pid, stats, byPID) {
			names, err := programs(pid)
			switch {
			case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ESRCH): // it has ended meanwhile
			case err != nil:
				faults[owner] = true
			default:
				found[owner] = append(found[owner], names...)
			}
		}
	}
	for _, id := range ids {
		if faults[id] || Observe(id) != Alive {
			delete(found, id)
		}
	}
	return found, nil
}

// owners returns those of some processes that another one belongs to.
func owners(pid int, stats map[int]procStat, byPID map[int]Identity) map[Identity]bool {
	own := make(map[Identity]bool)
	note := func(pid int) {
		if id, ok := byPID[pid]; ok {
			own[id] = true
		}
	}
	note(stats[pid].group)
	note(stats[pid].session)
	note(pid)
	for _, st := range ancestry(pid, stats) {
		note(st.parent)
	}
	return own
}

// programs returns the names of a process.
func programs(pid int) ([]string, error) {
	names := []string{NameOf(pid)}
	f, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, maxArguments))
	if err != nil {
		return nil, err
	}
	for i, arg := range bytes.SplitN(line, []byte{0}, 3) {
		if i < 2 && len(arg) > 0 {
			names = append(names, path.Base(string(arg)))
		}
	}
	return names, nil
}

// NameOf returns the kernel's name of a process, of at most 15 bytes; empty if it cannot be read.
func NameOf(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSuffix(string(b), "\n")
}
