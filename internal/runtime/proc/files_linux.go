package proc

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// readProc reads a file in /proc, into b if it fits. It makes less than half of the system calls of
// os.ReadFile, which also tries whether the file can be polled.
func readProc(file string, b []byte) ([]byte, error) {
	fd, err := openUnpolled(file)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	for b = b[:0]; ; {
		if len(b) == cap(b) {
			b = slices.Grow(b, 1<<10)
		}
		n, err := syscall.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: file, Err: err}
		case n == 0:
			return b, nil
		}
		b = b[:len(b)+n]
	}
}

// openUnpolled opens a file to read it by system calls.
func openUnpolled(file string) (int, error) {
	for {
		fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return fd, nil
		case !errors.Is(err, syscall.EINTR):
			return -1, &fs.PathError{Op: "open", Path: file, Err: err}
		}
	}
}

// readNumbers lists the entries of a directory in /proc whose names are numbers: processes or
// threads. It lists nothing of a process that ends meanwhile.
func readNumbers(dir string) ([]int, error) {
	fd, err := openUnpolled(dir)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var buf [4 << 10]byte
	var names []string
	var numbers []int
	for {
		n, err := syscall.ReadDirent(fd, buf[:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case n == 0, errors.Is(err, syscall.ENOENT):
			return numbers, nil
		case err != nil:
			return nil, &fs.PathError{Op: "readdirent", Path: dir, Err: err}
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if i, err := strconv.Atoi(name); err == nil {
				numbers = append(numbers, i)
			}
		}
	}
}

// SocketsOf iterates over the inodes of the sockets that a process has open; there are none if that
// cannot be read.
func SocketsOf(pid int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd"
		fds, err := readNumbers(dir)
		if err != nil {
			return
		}
		for _, fd := range fds {
			link, err := os.Readlink(dir + "/" + strconv.Itoa(fd))
			if err != nil {
				continue
			}
			digits, ok := strings.CutPrefix(link, "socket:[")
			if !ok {
				continue
			}
			inode, err := strconv.ParseUint(strings.TrimSuffix(digits, "]"), 10, 64)
			if err == nil && !yield(inode) {
				return
			}
		}
	}
}
