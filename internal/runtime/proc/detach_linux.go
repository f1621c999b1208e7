package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Detached is a process that outlives this program.
type Detached struct {
	Identity
	os   *leader
	done chan struct{}
	exit *ExitError // set before done is closed
}

// Release ends the wait for the process, and the goroutine of the wait. A process that ends
// after that stays a zombie until this program ends.
func (d *Detached) Release() {
	if d.os.pidfd != nil {
		d.os.pidfd.SetReadDeadline(time.Unix(1, 0))
	}
}

// Done is closed when the process has ended or was released.
func (d *Detached) Done() <-chan struct{} { return d.done }

// Exit returns the exit code or the signal, after Done. It returns nil if the process was released.
func (d *Detached) Exit() *ExitError { return d.exit }

// Detach starts a program in a new session, which no end of this program affects. Its
// descriptors from 0 on are files.
func Detach(file string, argv, env []string, dir string, files []*os.File) (*Detached, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		rc, err := f.SyscallConn()
		if err != nil {
			return nil, err
		}
		// Not f.Fd(): that would make the file blocking, for both ends of a socket pair.
		rc.Control(func(fd uintptr) { fds[i] = fd })
	}
	l, err := forkLeader(file, argv, &syscall.ProcAttr{
		Dir: dir, Env: env, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true},
	}, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", file, err)
	}
	id, err := Identify(l.pid)
	if err != nil {
		l.signal(syscall.SIGKILL)
	}
	d := &Detached{Identity: id, os: l, done: make(chan struct{})}
	go func() {
		if l.await() {
			if status, ok := l.reap(); ok {
				d.exit = exitErrorOf(status)
			}
		} else if l.pidfd != nil {
			l.pidfd.Close()
		}
		close(d.done)
	}()
	if err != nil {
		<-d.done
		return nil, err
	}
	return d, nil
}

// AwaitDeath waits for the end of a process, which need not be a child. It returns nil when the
// end is certain.
func (id Identity) AwaitDeath(ctx context.Context) error {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		if Observe(id) == Dead {
			return nil
		}
		return fmt.Errorf("waiting for process %d: %w", id.PID, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	// The descriptor may refer to another process, so the identity is checked after it was
	// opened. A zombie in /proc is no proof of the end: its other threads may still run and hold
	// locks.
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("waiting for process %d: %w", id.PID, err)
	}
	if st, err := readStat(id.PID); boot != id.Boot || err == nil && st.start != id.Start {
		return nil
	}
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = rc.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Cause(ctx)
	}
	return err
}
