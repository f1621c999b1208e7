package trial

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
)

// Up starts a daemon in the background. Some agents may not be well.
func Up(coppice, dir string) error {
	cmd := exec.Command(coppice, "up", "-d")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "not well:") {
		return fmt.Errorf("coppice up: %w: %s", err, out)
	}
	return nil
}

// Kill kills the holder of the project's lock, and waits until it is gone.
func Kill(dir string) error {
	pid, err := PID(dir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the daemon %d: %w", pid, err)
	}
	return process.AwaitEnd(pid)
}

// Down stops the fleet in order.
func Down(client *api.Client, dir string) error {
	pid, err := PID(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := control.Down.Call(ctx, client, control.DownRequest{}); err != nil {
		return err
	}
	return process.AwaitEnd(pid)
}

// PID returns the process that holds the lock of the project.
func PID(dir string) (int, error) {
	p, err := project.Open(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		return 0, err
	}
	holder, locked := p.Locked()
	if !locked || holder.PID == 0 {
		return 0, fmt.Errorf("no daemon holds the lock of %s", dir)
	}
	return holder.PID, nil
}

// Retry repeats what fails because there is no daemon.
func Retry(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, api.ErrDown) && !errors.Is(err, api.ErrLost) && !errors.Is(err, api.ErrStopping) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}
