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

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// Group is the control group of one agent. It may not exist. Its methods must not be called
// concurrently.
type Group struct {
	dir     string
	tree    *Tree          // nil if another process has created it
	applied runtime.Limits // limits that were written last
	valid   bool           // whether applied is known
}

// Group returns the group of that name, without creating it.
func (t *Tree) Group(name string) (*Group, error) {
	if err := valid(name); err != nil {
		return nil, err
	}
	return &Group{dir: filepath.Join(t.base, name), tree: t}, nil
}

// At returns a group that another process has created. It fails if there is none in that
// directory.
func At(dir string) (*Group, error) {
	if err := valid(filepath.Base(dir)); err != nil {
		return nil, err
	}
	if err := isGroup(dir); err != nil {
		return nil, err
	}
	return &Group{dir: dir}, nil
}

// Dir returns the directory of the group.
func (g *Group) Dir() string { return g.dir }

// Prepare creates the group if necessary and sets its limits. It returns those that are
// enforced, with zero for the others. It must not be called for groups of At.
func (g *Group) Prepare(l runtime.Limits) (enforced runtime.Limits, err error) {
	err = os.Mkdir(g.dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		// A process that is created in a frozen group never runs.
		write(filepath.Join(g.dir, "cgroup.freeze"), "0")
	case err != nil:
		return enforced, err
	default:
		g.applied, g.valid = runtime.Limits{}, true // defaults of the kernel
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

// Open opens the group, to start a process in it.
func (g *Group) Open() (*os.File, error) {
	return private.OpenDir(g.dir)
}

// killPause is the time after which a group is checked again if the kernel does not report that
// it is empty.
const killPause = 50 * time.Millisecond

// Kill kills all processes of the group and of the groups below it, and returns when none is
// left. A group that does not exist has none. After a kill the group is removed, and Prepare
// creates it again: some kernels (such as 6.18) kill each process that is started in a group for
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

// gone reports whether the group was removed, before or after the file was opened.
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

// killEach kills without cgroup.kill. Frozen processes do not fork.
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

// killMembers kills the members of the group. A pid may be reused after it was read, but not
// once a descriptor refers to it and it is read again.
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

// await waits until the group is empty. It calls again before each look.
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
		// The poll refers to the read above, so no change in between is missed.
		rc.Control(func(fd uintptr) {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, int(killPause.Milliseconds()))
		})
	}
}

// populated reports whether a process runs in the group or below it.
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

// Remove removes the group and the groups below it. It fails if a process runs there.
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

// OutOfMemory returns how many processes of the group were killed because of its memory limit; 0
// if unknown.
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
