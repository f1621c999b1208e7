package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// Group is the control group of one agent. It may not exist. Its methods are
// called by one goroutine at a time.
type Group struct {
	dir     string
	tree    *Tree          // nil if another process has made it
	applied runtime.Limits // what the kernel was told last
	valid   bool           // told is
}

// Group returns the group of that name. It is not made by that.
func (t *Tree) Group(name string) (*Group, error) {
	if err := valid(name); err != nil {
		return nil, err
	}
	return &Group{dir: filepath.Join(t.base, name), tree: t}, nil
}

// At returns a group that another process has made. An error means that there
// is none of this name in that place.
func At(dir string) (*Group, error) {
	if err := valid(filepath.Base(dir)); err != nil {
		return nil, err
	}
	if err := isGroup(dir); err != nil {
		return nil, err
	}
	return &Group{dir: dir}, nil
}

// Dir is its directory.
func (g *Group) Dir() string { return g.dir }

// Prepare makes the group unless it exists, and gives it these limits. It
// returns those that hold, the others being zero. It is not for groups of At.
func (g *Group) Prepare(l runtime.Limits) (enforced runtime.Limits, err error) {
	err = os.Mkdir(g.dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		// Who is born in a frozen group never gets to its program.
		write(filepath.Join(g.dir, "cgroup.freeze"), "0")
	case err != nil:
		return enforced, err
	default:
		g.applied, g.valid = runtime.Limits{}, true // as the kernel makes them
	}
	list, enforced := settings(l, g.tree.has)
	if g.valid && g.applied == enforced {
		return enforced, nil
	}
	g.valid = false
	for _, s := range list {
		err := write(filepath.Join(g.dir, s.file), s.value)
		if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
			return runtime.Limits{}, fmt.Errorf("setting limits of a control group: %w", err)
		}
	}
	g.applied, g.valid = enforced, true
	return enforced, nil
}

// Open opens the group to start a process in it.
func (g *Group) Open() (*os.File, error) {
	return os.OpenFile(g.dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// killPause is after what time it is looked again whether a group is empty,
// should the kernel not say so.
const killPause = 50 * time.Millisecond

// Kill kills all processes of the group, and of groups that they have made in
// it, and returns when none is left. A group that does not exist has none. One
// in which a process was killed is removed, to be made again by Prepare: there are
// kernels (6.18 is one) that kill at birth each process started in a group for
// which cgroup.kill was ever used.
func (g *Group) Kill(ctx context.Context) error {
	err := g.kill(ctx)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("killing control group %s: %w", g.dir, err)
	}
	return nil
}

// gone: the group was removed, before or after the file was opened.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) }

func (g *Group) kill(ctx context.Context) error {
	events, err := os.Open(filepath.Join(g.dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	if some, err := populated(events); err != nil || !some {
		return err
	}
	err = write(filepath.Join(g.dir, "cgroup.kill"), "1")
	if errors.Is(err, fs.ErrNotExist) { // before Linux 5.14
		return g.killEach(ctx, events)
	}
	if err != nil {
		return err
	}
	if err := await(ctx, events, func() error { return nil }); err != nil {
		return err
	}
	return g.Remove()
}

// killEach kills without the kernel's help. Frozen processes do not fork.
func (g *Group) killEach(ctx context.Context, events *os.File) error {
	freeze := filepath.Join(g.dir, "cgroup.freeze")
	if write(freeze, "1") == nil {
		defer write(freeze, "0")
	}
	return await(ctx, events, func() error {
		return filepath.WalkDir(g.dir, func(dir string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return killMembers(filepath.Join(dir, "cgroup.procs"))
		})
	})
}

// killMembers kills who is in the group. A process id that was read may mean
// another process by the time it is used, but not once it is held by a
// descriptor and read again.
func killMembers(file string) error {
	before, err := members(file)
	if err != nil {
		return err
	}
	held := make(map[int]int)
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for _, pid := range before {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			held[pid] = fd
		}
	}
	after, err := members(file)
	if err != nil {
		return err
	}
	for pid, fd := range held {
		if !slices.Contains(after, pid) {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

func members(file string) (pids []int, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, syscall.EOPNOTSUPP) { // a group of threads: the group above it lists its processes
		return nil, nil
	}
	for line := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 { // 0 is in another pid namespace
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// await waits until the group is empty, calling again before each look.
func await(ctx context.Context, events *os.File, again func() error) error {
	for {
		if err := again(); err != nil {
			return err
		}
		if some, err := populated(events); err != nil || !some {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rc, err := events.SyscallConn()
		if err != nil {
			return err
		}
		// The read above is what the poll refers to: nothing is missed between.
		rc.Control(func(fd uintptr) {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(killPause.Milliseconds()))
		})
	}
}

// populated reports whether a process lives in the group or below it.
func populated(events *os.File) (bool, error) {
	b := make([]byte, 256)
	n, err := events.ReadAt(b, 0)
	if n == 0 {
		return false, err
	}
	v, err := value(string(b[:n]), "populated")
	if err != nil {
		return false, fmt.Errorf("%s: %w", events.Name(), err)
	}
	return v != 0, nil
}

// Remove removes the group and those that were made in it. It fails if a
// process lives there.
func (g *Group) Remove() error {
	err := os.Remove(g.dir)
	if err == nil || gone(err) {
		return nil
	}
	var dirs []string
	filepath.WalkDir(g.dir, func(dir string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, dir)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) { // children come after their parents
		if err = os.Remove(dir); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// OutOfMemory is how many processes of the group were killed because it had
// reached its limit of memory; 0 where that cannot be told.
func (g *Group) OutOfMemory() uint64 {
	b, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return 0
	}
	n, err := value(string(b), "oom_kill")
	if err != nil {
		return 0
	}
	return n
}
