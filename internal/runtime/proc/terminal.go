package proc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Size is that of a terminal, in characters.
type Size struct{ Rows, Cols uint16 }

// DefaultSize is the size of a terminal without viewers.
var DefaultSize = Size{Rows: 24, Cols: 80}

// writeTimeout is how long a process may refuse to read its input before Write fails.
const writeTimeout = 5 * time.Second

// ErrNoInput is returned by Write and Resize of a process that has no
// terminal or whose stdin is not a pipe.
var ErrNoInput = errors.New("process has no terminal and no input pipe")

// openTerminal makes a pseudo terminal. The master is a file in the poller,
// so that deadlines work on it.
func openTerminal(size Size) (master, tty *os.File, err error) {
	blocking, tty, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("opening a pseudo terminal: %w", err)
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		tty.Close()
		return nil, nil, fmt.Errorf("opening a pseudo terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	if err := resize(master, size); err != nil {
		master.Close()
		tty.Close()
		return nil, nil, fmt.Errorf("setting the size of a pseudo terminal: %w", err)
	}
	return master, tty, nil
}

func resize(master *os.File, size Size) error {
	if size == (Size{}) {
		size = DefaultSize
	}
	rc, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	// Not master.Fd(): that takes it out of the poller.
	err = rc.Control(func(fd uintptr) {
		serr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	return errors.Join(err, serr)
}

// Write types into the terminal, or writes to stdin where that is a pipe. A
// process that does not read its input makes it fail after 5 seconds with an
// error that wraps os.ErrDeadlineExceeded.
func (p *Process) Write(data []byte) (int, error) {
	if p.input == nil {
		return 0, ErrNoInput
	}
	p.inputMu.Lock() // what one call writes stays together
	defer p.inputMu.Unlock()
	p.input.SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.input.Write(data)
}

// Resize changes the size of the terminal; its foreground group gets SIGWINCH.
func (p *Process) Resize(size Size) error {
	if !p.terminal {
		return ErrNoInput
	}
	return resize(p.input, size)
}
