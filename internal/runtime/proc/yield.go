package proc

import (
	"os"
	"syscall"
)

// yielder lets a goroutine that can always continue give way to all I/O that is ready. Otherwise
// Go's scheduler looks for ready I/O only while nothing can run, and every 10 ms; runtime.Gosched
// does not change that. The zero value is ready to use.
type yielder struct {
	r, w *os.File // a pipe of its own; nil while it is not needed
	rc   syscall.RawConn
}

// yield waits until the poller has looked for I/O. Without a pipe it does nothing.
func (y *yielder) yield() {
	if y.r == nil && !y.open() {
		return
	}
	var b [1]byte
	waited := false
	y.rc.Read(func(fd uintptr) (done bool) {
		if !waited {
			waited = true
			_, err := y.w.Write(b[:])
			return err != nil
		}
		syscall.Read(int(fd), b[:])
		return true
	})
}

func (y *yielder) open() bool {
	r, w, err := os.Pipe()
	if err != nil {
		return false
	}
	if y.rc, err = r.SyscallConn(); err != nil {
		r.Close()
		w.Close()
		return false
	}
	y.r, y.w = r, w
	return true
}

// close closes the pipe; the next yield opens another one.
func (y *yielder) close() {
	if y.r != nil {
		y.r.Close()
		y.w.Close()
		*y = yielder{}
	}
}
