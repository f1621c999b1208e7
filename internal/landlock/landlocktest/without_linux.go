package landlocktest

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Without runs f as on a kernel without Landlock: on a thread for which landlock_create_ruleset(2)
// does not exist, by seccomp(2). That also holds for the processes that f starts. f must not end
// the test.
func Without(t testing.TB, f func()) {
	t.Helper()
	OnOwnThread(func() {
		if err := forbid(unix.SYS_LANDLOCK_CREATE_RULESET); err != nil {
			t.Error(err)
			return
		}
		f()
	})
}

// OnOwnThread runs f on a thread that ends after f. It never uses the main thread, which cannot
// end.
func OnOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without UnlockOSThread the thread ends with the goroutine
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		OnOwnThread(f) // on another thread, since this one is locked
	}()
	<-done
}

// forbid makes a system call fail with ENOSYS on the calling thread.
func forbid(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
