package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenStdin opens the file that a process reads as its standard input. It follows links, since
// users may name any file. The file must be a regular file or a character device. A FIFO is
// refused, because opening it waits for a writer, and the file may have become one since the
// configuration was checked. The error is ErrCommand.
func OpenStdin(path string) (*os.File, error) {
	// O_NOCTTY: a terminal must not become the controlling terminal of a shim.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: stdin: %w", ErrCommand, &os.PathError{Op: "open", Path: path, Err: err})
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if kind := st.Mode & unix.S_IFMT; err == nil && kind != unix.S_IFREG && kind != unix.S_IFCHR {
		err = fmt.Errorf("%s is neither a regular file nor a character device", path)
	}
	if err == nil {
		err = unix.SetNonblock(fd, false) // the process would find no data in a terminal
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("%w: stdin: %w", ErrCommand, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}
