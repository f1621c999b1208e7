package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openPipe returns a pipe whose end theirs is for a child. Only ours is polled, unlike with os.Pipe:
// to poll both takes twice as many system calls, and wakes this program for each.
func openPipe(weRead bool) (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	mine, other := fds[0], fds[1]
	if !weRead {
		mine, other = other, mine
	}
	// Not SetNonblock, which asks for the other flags first: there are none.
	if _, err := unix.FcntlInt(uintptr(mine), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		syscall.Close(mine)
		syscall.Close(other)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(mine), "pipe"), os.NewFile(uintptr(other), "pipe"), nil
}

// openNull opens an empty standard input.
func openNull() (*os.File, error) {
	fd, err := openUnpolled(os.DevNull)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}
