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

// waitTime is how long a launcher waits for the daemon's word.
const waitTime = time.Minute

// launch is the launcher. It does not return if all goes well: the daemon
// sees the connection close in execve.
func launch(dir, token string) error {
	runtime.LockOSThread() // what dieWith asks for belongs to a thread
	if err := os.Chdir(dir); err != nil {
		return err
	}
	c, err := hello(Launcher, token)
	if err != nil {
		return err
	}
	c.SetReadDeadline(time.Now().Add(waitTime))
	m, err := c.Receive()
	if err != nil {
		return fmt.Errorf("the start was given up: %w", err)
	}
	if m.Type != Go || m.Launch == nil {
		return fmt.Errorf("unexpected message %.40q", m.Type)
	}
	err = become(m.Launch.Unpack(), m.PID)
	c.SetWriteDeadline(time.Now().Add(waitTime))
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
	if err := limit(l.Limits); err != nil {
		return err
	}
	if l.NoNewPrivileges {
		if err := proc.NoNewPrivileges(); err != nil {
			return err
		}
	}
	return proc.ExecError(file, syscall.Exec(file, l.Argv, l.Env))
}

// limit bounds this process and those that it starts, each for itself. There
// is no such limit for CPU.
func limit(l kinds.Limits) error {
	for _, r := range []struct {
		name     string
		resource int
		value    uint64
	}{
		// Memory last: this program needs some itself to get to exec.
		{"open files", unix.RLIMIT_NOFILE, l.OpenFiles},
		{"processes", rlimitProcesses, l.Processes},
		{"memory", unix.RLIMIT_AS, uint64(max(0, l.Memory))},
	} {
		if r.value == 0 {
			continue
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(r.resource, &now); err == nil {
			r.value = min(r.value, now.Max)
		}
		// syscall's, so that exec does not put back the open files that Go began with.
		if err := syscall.Setrlimit(r.resource, &syscall.Rlimit{Cur: r.value, Max: r.value}); err != nil {
			return fmt.Errorf("limit %s to %d: %w", r.name, r.value, err)
		}
	}
	return nil
}
