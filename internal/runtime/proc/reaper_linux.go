package proc

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Collect reaps all orphans that have ended. Call it after SIGCHLD.
func (r *Reaper) Collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collect()
}

// collect asks for any child that has ended, which is one system call if there is none. A child
// that was started here hides those behind it, which are collected after it. Needs mu.
func (r *Reaper) collect() {
	for {
		pid, _ := endedChild()
		if pid == 0 {
			return
		}
		if r.hidden = r.own[pid]; r.hidden {
			return
		}
		syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
}

// Childless reports whether this program has no child, running or ended.
func (r *Reaper) Childless() bool {
	_, err := endedChild()
	return errors.Is(err, syscall.ECHILD)
}

// endedChild returns the pid of a child that has ended, without reaping it; 0 if there is none.
func endedChild() (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || info.Signo == 0 {
			return 0, err
		}
		// si_pid is the first field of the union that x/sys does not name. It is aligned like a
		// pointer and follows three ints.
		const word = unsafe.Sizeof(uintptr(0))
		const offset = (3*4 + word - 1) / word * word
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), nil
	}
}
