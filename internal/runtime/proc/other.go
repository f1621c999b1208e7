//go:build !linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Identify returns errors.ErrUnsupported.
func Identify(pid int) (Identity, error) {
	return Identity{}, fmt.Errorf("identifying process %d: %w", pid, errors.ErrUnsupported)
}

// Observe returns Unknown.
func Observe(Identity) Observation { return Unknown }

// Ended reports false.
func (id Identity) Ended() bool { return false }

// Signal returns errors.ErrUnsupported.
func (id Identity) Signal(syscall.Signal) error {
	return fmt.Errorf("signaling process %d: %w", id.PID, errors.ErrUnsupported)
}

func descendants(pid int) ([]member, error) {
	return nil, fmt.Errorf("listing descendants of process %d: %w", pid, errors.ErrUnsupported)
}

// PIDs returns errors.ErrUnsupported.
func PIDs() ([]int, error) { return nil, fmt.Errorf("listing processes: %w", errors.ErrUnsupported) }

// Family returns nil.
func Family(Identity) []Identity { return nil }

// Families returns nil.
func Families([]Identity) []Identity { return nil }

// Doing returns "".
func Doing(int) string { return "" }

// Detached is not supported.
type Detached struct{ Identity }

// Release does nothing.
func (d *Detached) Release() {}

// Done returns nil.
func (d *Detached) Done() <-chan struct{} { return nil }

// Exit returns nil.
func (d *Detached) Exit() *ExitError { return nil }

// Detach returns errors.ErrUnsupported.
func Detach(string, []string, []string, string, []*os.File) (*Detached, error) {
	return nil, errors.ErrUnsupported
}

// AwaitDeath returns errors.ErrUnsupported.
func (id Identity) AwaitDeath(context.Context) error { return errors.ErrUnsupported }

// LineageOf returns errors.ErrUnsupported.
func LineageOf(pid int) (Lineage, error) {
	return Lineage{}, fmt.Errorf("listing parents of process %d: %w", pid, errors.ErrUnsupported)
}

// EnvironmentOf returns nil.
func EnvironmentOf(int) map[string]string { return nil }

// InTree reports whether pid is the leader: other processes are unknown.
func InTree(pid, leader int) bool { return pid == leader }

// NoNewPrivileges returns errors.ErrUnsupported.
func NoNewPrivileges() error {
	return fmt.Errorf("%w: no_new_privileges needs Linux: %w", ErrCommand, errors.ErrUnsupported)
}

// Programs returns errors.ErrUnsupported.
func Programs([]Identity) (map[Identity][]string, error) {
	return nil, fmt.Errorf("listing processes: %w", errors.ErrUnsupported)
}

// Collect does nothing, since there are no subreapers.
func (r *Reaper) Collect() {}

func (r *Reaper) collect() {}

// Childless reports false.
func (r *Reaper) Childless() bool { return false }

// Leftovers returns errors.ErrUnsupported.
func Leftovers(leader Identity, _ []Identity) ([]Identity, error) {
	return nil, fmt.Errorf("listing what is left of process %d: %w", leader.PID, errors.ErrUnsupported)
}

func (p *Process) rest() ([]Identity, error) { return nil, errors.ErrUnsupported }

// Sweeper is not supported.
type Sweeper struct{}

// SweepUnused returns errors.ErrUnsupported.
func (*Sweeper) SweepUnused(context.Context, string) error { return errors.ErrUnsupported }

// Sweep returns errors.ErrUnsupported.
func (*Sweeper) Sweep(context.Context, string) error { return errors.ErrUnsupported }

// MarkOf returns 0: there are no marks.
func MarkOf(uint64) Mark { return 0 }

func (Mark) pass() {}

// ReadMark returns 0.
func ReadMark(int) Mark { return 0 }

// Strays returns errors.ErrUnsupported.
func (r *Reaper) Strays(func(Stray) bool) ([]Identity, error) {
	return nil, fmt.Errorf("listing what was left behind: %w", errors.ErrUnsupported)
}

// GroupOf returns "".
func GroupOf(int) string { return "" }
