//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/coppice-dev/coppice/internal/landlock"
)

// leader is a started process as the kernel knows it. Without pidfds a thread waits for each
// leader, which also reaps it. So the group is killed a moment after its id could have been
// freed. The id stays in use as long as the group has a member, which is the case that matters.
type leader struct {
	pid    int
	proc   *os.Process
	status syscall.WaitStatus
	err    error
}

func startLeader(file string, cmd *Command, files [3]*os.File, _ *landlock.Ruleset) (*leader, error) {
	if cmd.NoNewPrivileges {
		return nil, NoNewPrivileges()
	}
	if cmd.User != nil {
		return nil, fmt.Errorf("%w: running as another user needs Linux: %w", ErrCommand, errors.ErrUnsupported)
	}
	p, err := os.StartProcess(file, cmd.Argv, &os.ProcAttr{
		Dir:   cmd.Dir,
		Env:   cmd.Env,
		Files: files[:],
		Sys: &syscall.SysProcAttr{
			Setpgid: cmd.Terminal == nil,
			Setsid:  cmd.Terminal != nil,
			Setctty: cmd.Terminal != nil,
		},
	})
	if err != nil {
		return nil, err
	}
	return &leader{pid: p.Pid, proc: p}, nil
}

func (l *leader) await() bool {
	st, err := l.proc.Wait()
	if err != nil {
		l.err = err
		return false
	}
	l.status = st.Sys().(syscall.WaitStatus)
	return true
}

func (l *leader) reap() (syscall.WaitStatus, bool) { return l.status, l.err == nil }

func (l *leader) signal(sig syscall.Signal) error { return l.proc.Signal(sig) }
