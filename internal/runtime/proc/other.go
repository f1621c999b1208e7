//go:build !linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Identify is not implemented here; it returns errors.ErrUnsupported.
func Identify(pid int) (Identity, error) {
	return Identity{}, fmt.Errorf("identifying process %d: %w", pid, errors.ErrUnsupported)
}

// Observe cannot tell here.
func Observe(Identity) Observation { return Unknown }

// Ended cannot tell here.
func (id Identity) Ended() bool { return false }

// Signal is not implemented here; it returns errors.ErrUnsupported.
func (id Identity) Signal(syscall.Signal) error {
	return fmt.Errorf("signaling process %d: %w", id.PID, errors.ErrUnsupported)
}

func descendants(pid int) ([]member, error) {
	return nil, fmt.Errorf("listing descendants of process %d: %w", pid, errors.ErrUnsupported)
}

// PIDs is not implemented here; it returns errors.ErrUnsupported.
func PIDs() ([]int, error) { return nil, fmt.Errorf("list processes: %w", errors.ErrUnsupported) }

// Kin finds no process here.
func Kin(Identity) []Identity { return nil }

// Doing is not told here.
func Doing(int) string { return "" }

// Detached is a process that is to outlive this program.
type Detached struct{ Identity }

// Release has nothing to do here.
func (d *Detached) Release() {}

// Done is closed when it has ended, or was released.
func (d *Detached) Done() <-chan struct{} { return nil }

// Detach is not implemented here; it returns errors.ErrUnsupported.
func Detach(string, []string, []string, string, []*os.File) (*Detached, error) {
	return nil, errors.ErrUnsupported
}

// AwaitDeath is not implemented here; it returns errors.ErrUnsupported.
func (id Identity) AwaitDeath(context.Context) error { return errors.ErrUnsupported }

// LineageOf is known on Linux alone.
func LineageOf(pid int) (Lineage, error) {
	return Lineage{}, fmt.Errorf("listing parents of process %d: %w", pid, errors.ErrUnsupported)
}

// EnvironmentOf is known on Linux alone.
func EnvironmentOf(int) map[string]string { return nil }

// listenerOf cannot tell whose a listener is.
func listenerOf(netip.AddrPort, int, int) error { return nil }

const controlSize = 0

// passCredentials does nothing: the sender of a message is unknown here. The socket is in a
// directory that only this user can enter.
func passCredentials(*net.UnixConn) error { return nil }

func receiveNow(c *net.UnixConn, msg, _ []byte) (size, oobn int, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	cerr := rc.Control(func(fd uintptr) { size, _, _, _, err = unix.Recvmsg(int(fd), msg, nil, unix.MSG_DONTWAIT) })
	return size, 0, errors.Join(cerr, err)
}

func sender([]byte) (pid int, known bool) { return 0, false }

func inTree(pid, leader int) bool { return pid == leader }

// NoNewPrivileges needs Linux.
func NoNewPrivileges() error {
	return fmt.Errorf("%w: no_new_privileges needs Linux: %w", ErrCommand, errors.ErrUnsupported)
}

// Programs needs /proc.
func Programs([]Identity) (map[Identity][]string, error) {
	return nil, fmt.Errorf("listing processes: %w", errors.ErrUnsupported)
}

// Collect has nothing to do here: there are no subreapers.
func (r *Reaper) Collect() {}

func (r *Reaper) collect() {}

// Childless cannot tell here.
func (r *Reaper) Childless() bool { return false }

// Rest is not implemented here; it returns errors.ErrUnsupported.
func Rest(leader Identity, _ []Identity) ([]Identity, error) {
	return nil, fmt.Errorf("listing what is left of process %d: %w", leader.PID, errors.ErrUnsupported)
}

func (p *Process) rest() ([]Identity, error) { return nil, errors.ErrUnsupported }

// Sweeper is not implemented here.
type Sweeper struct{}

// SweepUnused returns errors.ErrUnsupported.
func (*Sweeper) SweepUnused(context.Context, string) error { return errors.ErrUnsupported }

// Sweep returns errors.ErrUnsupported.
func (*Sweeper) Sweep(context.Context, string) error { return errors.ErrUnsupported }
