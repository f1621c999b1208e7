package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Tree is a place where groups can be created.
type Tree struct {
	base   string // directory of the groups
	own    string // directory of the process that Find was called for
	pid    int
	has    controllers
	denied string // why controllers are missing
}

// Find returns the place where a process may create groups; 0 means this process. It changes
// nothing. The error wraps ErrUnavailable.
func Find(pid int) (*Tree, error) {
	if pid == 0 {
		pid = os.Getpid()
	}
	t, err := find(pid)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return t, nil
}

func find(pid int) (*Tree, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil {
		return nil, err
	}
	place, err := ownPath(string(text))
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := mountOf(string(mounts), place)
	if err != nil {
		return nil, err
	}
	if err := isGroup(own); err != nil {
		return nil, err
	}
	t := &Tree{own: own, pid: pid}
	if t.base, err = baseOf(own, writable); err != nil {
		return nil, err
	}
	t.read()
	return t, nil
}

// baseOf returns the directory in which groups are created.
func baseOf(own string, writable func(dir string) error) (string, error) {
	if parent := filepath.Dir(own); filepath.Base(own) == Leaf && writable(parent) == nil {
		return parent, nil
	}
	if err := writable(own); err != nil {
		return "", fmt.Errorf("control group %s is not delegated to this user: %w", own, err)
	}
	return own, nil
}

// writable returns nil if groups can be created in a directory and processes started in them:
// the kernel requires both permissions.
func writable(dir string) error {
	for _, file := range []string{dir, filepath.Join(dir, "cgroup.procs")} {
		if err := unix.Faccessat(unix.AT_FDCWD, file, unix.W_OK, unix.AT_EACCESS); err != nil {
			return err
		}
	}
	return nil
}

// isGroup ensures that the directory belongs to the kernel's file system.
func isGroup(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not in a file system of type cgroup2", dir)
	}
	return nil
}

// read reads which controllers the groups have.
func (t *Tree) read() {
	b, err := os.ReadFile(filepath.Join(t.base, "cgroup.subtree_control"))
	if err != nil {
		t.denied = err.Error()
		return
	}
	t.has = parseControllers(string(b))
}

// Enable enables as many controllers as possible for the groups. Call it in the process that
// Find was called for, before it starts others.
func (t *Tree) Enable() {
	t.leave()
	t.turnOn(func(wanted controllers) (denied []string) {
		for _, name := range wanted.names() {
			err := write(filepath.Join(t.base, "cgroup.subtree_control"), "+"+name)
			if errors.Is(err, syscall.EBUSY) {
				return append(denied, t.busy())
			}
			if err != nil {
				denied = append(denied, err.Error())
			}
		}
		return denied
	})
	t.read()
}

// Predict makes CPU and Missing report what holds after the process has called Enable, whether
// it has or not. It changes no group.
func (t *Tree) Predict() {
	t.turnOn(func(wanted controllers) []string {
		if wanted == 0 {
			return nil
		}
		if why := t.refusal(); why != "" {
			return []string{why}
		}
		t.has |= wanted
		return nil
	})
}

// turnOn calls enable with the controllers that the groups lack and could have. It records why
// the others are missing: because of what enable returns, or because there are none.
func (t *Tree) turnOn(enable func(wanted controllers) (denied []string)) {
	b, err := os.ReadFile(filepath.Join(t.base, "cgroup.controllers"))
	if err != nil {
		t.denied = err.Error()
		return
	}
	offered := parseControllers(string(b))
	denied := enable(offered &^ t.has)
	if absent := offered.missing().names(); len(absent) > 0 {
		denied = append(denied, fmt.Sprintf("%s does not have the controllers %s", t.base, strings.Join(absent, ", ")))
	}
	t.denied = strings.Join(denied, "; ")
}

func (t *Tree) busy() string {
	return fmt.Sprintf("%s has processes of its own, where it should have a group %s with the daemon", t.base, Leaf)
}

// refusal returns why the kernel would not enable a controller for the groups; "" if it would.
func (t *Tree) refusal() string {
	control := filepath.Join(t.base, "cgroup.subtree_control")
	if err := unix.Faccessat(unix.AT_FDCWD, control, unix.W_OK, unix.AT_EACCESS); err != nil {
		return (&os.PathError{Op: "open", Path: control, Err: err}).Error()
	}
	if _, err := os.Lstat(filepath.Join(t.base, "cgroup.type")); err != nil { // the root may have processes of its own
		return ""
	}
	b, err := os.ReadFile(filepath.Join(t.base, "cgroup.procs"))
	if err != nil {
		return err.Error()
	}
	if strings.TrimSpace(string(b)) != "" && !t.canLeave() {
		return t.busy()
	}
	return ""
}

// canLeave reports whether Enable moves the process into a Leaf.
func (t *Tree) canLeave() bool {
	if t.base != t.own || strings.HasPrefix(filepath.Base(t.own), Prefix) {
		return false
	}
	if _, err := os.Lstat("/run/systemd/system"); err == nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(t.own, "cgroup.procs"))
	return err == nil && strings.TrimSpace(string(b)) == strconv.Itoa(t.pid)
}

// leave moves this process into a Leaf, if it is alone in its group and systemd does not run.
func (t *Tree) leave() {
	if t.pid != os.Getpid() || !t.canLeave() {
		return
	}
	leaf := filepath.Join(t.base, Leaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return
	}
	if write(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(t.pid)) == nil {
		t.own = leaf
	}
}

// Dir returns the directory of the groups.
func (t *Tree) Dir() string { return t.base }

// CPU reports whether processor time can be limited now.
func (t *Tree) CPU() bool { return t.has&cpu != 0 }

// Missing returns the controllers that the groups lack, and why; "" if none.
func (t *Tree) Missing() string {
	names := t.has.missing().names()
	if len(names) == 0 {
		return ""
	}
	if t.denied == "" {
		return strings.Join(names, ", ") + " not enabled in " + t.base
	}
	return strings.Join(names, ", ") + ": " + t.denied
}

// Clean removes empty groups whose name begins with prefix, except those that keep reports as
// possibly in use.
func (t *Tree) Clean(prefix string, keep func(name string) bool) {
	entries, err := os.ReadDir(t.base)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() && strings.HasPrefix(name, prefix) && valid(name) == nil && !keep(name) {
			os.Remove(filepath.Join(t.base, name)) // fails if the group is not empty
		}
	}
}

// write writes to a file of the kernel. It creates no files.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
