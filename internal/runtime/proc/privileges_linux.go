package proc

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/landlock"
)

// NoNewPrivileges keeps the calling thread, and what it executes or forks, from gaining
// privileges by execve: set-user-ID programs run like any other (PR_SET_NO_NEW_PRIVS in
// prctl(2)). It cannot be undone. The caller must have locked its goroutine to the thread.
func NoNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privileges: %w", err)
	}
	return nil
}

// HasNoNewPrivileges reports whether a process cannot gain privileges. The error wraps
// fs.ErrNotExist if it has ended.
func HasNoNewPrivileges(pid int) (bool, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false, err
	}
	return bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")), nil
}

// forkRestricted forks on a new thread that cannot gain privileges and may write only where rules,
// unless they are nil, allow it. The child inherits both. syscall.SysProcAttr has no fields for
// that, and this program must keep its privileges.
//
// The thread stays until the child is reaped, because its end would kill the child
// (PR_SET_PDEATHSIG is about the thread). Then it ends, because nothing else may run on it.
func forkRestricted(rules *landlock.Ruleset, fork func() (*leader, error)) (*leader, error) {
	type result struct {
		l   *leader
		err error
	}
	forked := make(chan result)
	go onOwnThread(func() {
		err := NoNewPrivileges()
		if err == nil && rules != nil {
			err = rules.Restrict()
		}
		if err != nil {
			forked <- result{nil, fmt.Errorf("%w: %w", ErrCommand, err)}
			return
		}
		l, err := fork()
		if err != nil {
			forked <- result{nil, err}
			return
		}
		reaped := make(chan struct{})
		l.reaped = func() { close(reaped) }
		forked <- result{l, nil}
		<-reaped
	})
	r := <-forked
	return r.l, r.err
}

// onOwnThread runs f on a thread that ends after f. It uses neither the main thread, which cannot
// end, nor a thread that has forked, whose children would be killed with it.
func onOwnThread(f func()) { onOwnThreadThen(f, func() {}) }

// onOwnThreadThen calls found when it has the thread.
func onOwnThreadThen(f, found func()) {
	runtime.LockOSThread() // without UnlockOSThread the thread ends with the goroutine
	if unix.Gettid() != os.Getpid() && !hasForked() {
		found()
		f()
		return
	}
	taken := make(chan struct{})
	go onOwnThreadThen(f, func() { close(taken) })
	<-taken // until then it cannot be this thread
	runtime.UnlockOSThread()
	found()
}

// hasForked reports whether the calling thread has forked a child that is not reaped.
func hasForked() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WNOTHREAD, nil) == nil
}
