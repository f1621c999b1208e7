package proc

import (
	"os"
	"syscall"
)

// Collect reaps all strangers that have ended. Call it after SIGCHLD.
func (r *Reaper) Collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pid := range childrenOf(os.Getpid()) {
		if _, own := r.own[pid]; !own {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}
