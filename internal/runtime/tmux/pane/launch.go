package pane

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	kinds "github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// waitTimeout is the time that a launcher waits for the daemon.
const waitTimeout = time.Minute

// launch runs the launcher. On success it does not return: the daemon sees the connection close
// in execve.
func launch(dir, token string) error {
	runtime.LockOSThread() // dieWith applies to a thread
	if err := os.Chdir(dir); err != nil {
		return err
	}
	c, err := hello(Launcher, token)
	if err != nil {
		return err
	}
	c.SetReadDeadline(time.Now().Add(waitTimeout))
	m, err := c.Receive()
	if err != nil {
		return fmt.Errorf("the start was given up: %w", err)
	}
	if m.Type != Go || m.Launch == nil {
		return fmt.Errorf("unexpected message %.40q", m.Type)
	}
	err = become(m.Launch.Unpack(), m.PID)
	c.SetWriteDeadline(time.Now().Add(waitTimeout))
	return errors.Join(err, c.Send(&Message{Type: Error, Failure: wire.NewFailure(err)}))
}

// become turns this process into the agent.
func become(l kinds.Launch, server int) error {
	if len(l.Argv) == 0 {
		return fmt.Errorf("%w: no program named", proc.ErrCommand)
	}
	if err := os.Chdir(l.Dir); err != nil {
		return fmt.Errorf("%w: working directory: %w", proc.ErrCommand, err)
	}
	if l.Stdin != "" {
		f, err := proc.OpenStdin(l.Stdin)
		if err != nil {
			return err
		}
		if err := unix.Dup2(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
	}
	file, err := proc.LookPath(l.Argv[0], l.Dir, l.Env)
	if err != nil {
		return err
	}
	if err := dieWith(server); err != nil {
		return err
	}
	if err := proc.SetLimits(l.Limits.Memory, l.Limits.OpenFiles, l.Limits.Processes); err != nil {
		return err
	}
	if l.NoNewPrivileges {
		if err := proc.NoNewPrivileges(); err != nil {
			return err
		}
	}
	return proc.ExecError(file, syscall.Exec(file, l.Argv, l.Env))
}
