package proc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Size is the size of a terminal, in characters.
type Size struct{ Rows, Cols uint16 }

// DefaultSize is the size of a terminal without viewers.
var DefaultSize = Size{Rows: 24, Cols: 80}

// writeTimeout bounds a Write to a process that does not read its input.
const writeTimeout = 5 * time.Second

// ErrNoInput is returned by Write and Resize for a process that has no terminal or whose stdin
// is not a pipe.
var ErrNoInput = errors.New("process has no terminal and no input pipe")

// openTerminal creates a pseudo terminal. The master is in the network poller, so that deadlines
// work.
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
	// Not master.Fd(): that would remove it from the poller.
	err = rc.Control(func(fd uintptr) {
		serr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	return errors.Join(err, serr)
}

// Write writes to the terminal, or to stdin if that is a pipe. If the process does not read its
// input for 5 seconds, it fails with an error that wraps os.ErrDeadlineExceeded.
func (p *Process) Write(data []byte) (int, error) {
	if p.input == nil {
		return 0, ErrNoInput
	}
	p.inputMu.Lock() // keeps the data of one call together
	defer p.inputMu.Unlock()
	p.input.SetWriteDeadline(time.Now().Add(writeTimeout))
	return p.input.Write(data)
}

// TerminalSize returns the size of the terminal.
func (p *Process) TerminalSize() (size Size, err error) {
	if !p.terminal {
		return size, ErrNoInput
	}
	rc, err := p.input.SyscallConn()
	if err != nil {
		return size, err
	}
	var serr error
	err = rc.Control(func(fd uintptr) { // see resize
		var w *unix.Winsize
		if w, serr = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); serr == nil {
			size = Size{Rows: w.Row, Cols: w.Col}
		}
	})
	return size, errors.Join(err, serr)
}

// Resize changes the size of the terminal; its foreground group gets SIGWINCH.
func (p *Process) Resize(size Size) error {
	if !p.terminal {
		return ErrNoInput
	}
	return resize(p.input, size)
}
