package proc

import (
	"os"
	"time"
)

// Usage is what one process has used since its start.
type Usage struct {
	Parent int
	Start  uint64        // as in Identity
	CPU    time.Duration // in user mode and in the kernel
	Memory uint64        // resident, in bytes
}

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on all architectures that Go supports.
const tick = time.Second / 100

// Usages returns the usage of all processes by pid, except of those that this user cannot read.
func Usages() (map[int]Usage, error) {
	pids, err := PIDs()
	if err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	all := make(map[int]Usage, len(pids))
	for _, pid := range pids {
		if st, err := readStat(pid); err == nil {
			all[pid] = Usage{st.parent, st.start, time.Duration(st.cpu) * tick, st.resident * page}
		}
	}
	return all, nil
}
