package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/landlock"
)

// leader is a started process as the kernel knows it.
type leader struct {
	pid   int
	pidfd *os.File // nil if the kernel has none

	reaped func() // called by reap; may be nil
}

// startLeader forks and execs. It calls syscall.ForkExec instead of os.StartProcess, which would
// keep a second pidfd for every child. rules may be nil.
func startLeader(file string, cmd *Command, files [3]*os.File, rules *landlock.Ruleset) (*leader, error) {
	terminal := cmd.Terminal != nil
	attr := &syscall.ProcAttr{
		Dir: cmd.Dir,
		Env: cmd.Env,
		// Fd also makes the pipes blocking again, which programs expect.
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
		Sys: &syscall.SysProcAttr{
			Setpgid:   !terminal, // a session has its own group
			Setsid:    terminal,
			Setctty:   terminal, // the terminal is Ctty 0, stdin
			Pdeathsig: syscall.SIGKILL,
		},
	}
	if cmd.User != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: cmd.User.UID, Gid: cmd.User.GID, Groups: cmd.User.Groups}
	}
	if cmd.Group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(cmd.Group.Fd())
	}
	fork := func() (*leader, error) { return forkLeader(file, cmd.Argv, attr, cmd.Reaper, cmd.Mark) }
	if cmd.NoNewPrivileges || rules != nil {
		return forkRestricted(rules, fork)
	}
	return fork()
}

func forkLeader(
	file string, argv []string, attr *syscall.ProcAttr, reaper *Reaper, mark Mark,
) (*leader, error) {
	pidfd := -1
	attr.Sys.PidFD = &pidfd
	pid, err := reaper.fork(mark, func() (int, error) { return syscall.ForkExec(file, argv, attr) })
	if err != nil {
		return nil, err
	}
	l := &leader{pid: pid}
	if pidfd >= 0 {
		if err := syscall.SetNonblock(pidfd, true); err != nil {
			syscall.Close(pidfd)
			return l, nil
		}
		l.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	return l, nil
}

// await returns when the leader has ended, without reaping it. It reports false if the leader
// can no longer be reaped here.
func (l *leader) await() bool {
	var err error
	ended := func(idType, id, flags int) bool {
		var info unix.Siginfo // stays zero while the process runs
		for {
			err = unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
			if !errors.Is(err, syscall.EINTR) {
				return err != nil || info.Signo != 0
			}
		}
	}
	if l.pidfd != nil {
		if rc, e := l.pidfd.SyscallConn(); e == nil {
			e = rc.Read(func(fd uintptr) bool { return ended(unix.P_PIDFD, int(fd), unix.WNOHANG) })
			if e == nil && (err == nil || errors.Is(err, syscall.ECHILD)) {
				return err == nil
			}
			if errors.Is(e, os.ErrDeadlineExceeded) { // see Detached.Release
				return false
			}
		}
	}
	// There is no pidfd, or it cannot be waited for (before Linux 5.4).
	ended(unix.P_PID, l.pid, 0)
	return err == nil
}

// reap collects the exit status, after await. After it the pid may be reused.
func (l *leader) reap() (syscall.WaitStatus, bool) {
	var ws syscall.WaitStatus
	var err error
	for {
		if _, err = syscall.Wait4(l.pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if l.pidfd != nil {
		l.pidfd.Close()
	}
	if l.reaped != nil {
		l.reaped()
	}
	return ws, err == nil
}

// signal signals the leader alone, before reap.
func (l *leader) signal(sig syscall.Signal) error {
	if l.pidfd != nil {
		if rc, err := l.pidfd.SyscallConn(); err == nil {
			var serr error
			err = rc.Control(func(fd uintptr) { serr = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
			if err == nil && !errors.Is(serr, syscall.ENOSYS) {
				return serr
			}
		}
	}
	return syscall.Kill(l.pid, sig)
}
