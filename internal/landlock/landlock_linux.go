package landlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRules bounds the entries that are writable next to protected ones.
const maxRules = 4096

// devices are writable in any case, as far as they exist. What programs write there is discarded,
// or goes to a terminal.
var devices = [...]string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
}

const (
	fileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	dirRights = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
)

// ABI returns the version of the interface of Landlock that the kernel has.
func ABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS:
		return 0, errors.New("the kernel has no Landlock")
	case errno == unix.EOPNOTSUPP:
		return 0, errors.New("Landlock is disabled; add landlock to the boot parameter lsm=")
	case errno != 0:
		return 0, fmt.Errorf("asking for Landlock: %w", errno)
	}
	return int(abi), nil
}

// Ruleset limits the processes that are started with it.
type Ruleset struct {
	fd      int
	handled uint64
	rules   int
	paths   *resolved
	known   map[file]bool // what is protected
}

// file identifies a file, whatever its name.
type file struct{ dev, ino uint64 }

// Open looks the paths up and prepares their limits. Nil paths have a nil Ruleset, which limits
// nothing. The caller must close the Ruleset. If the kernel cannot enforce the limits, the error
// wraps ErrUnsupported.
func (p *Paths) Open() (*Ruleset, error) {
	if p == nil {
		return nil, nil
	}
	abi, err := ABI()
	if err := supports(abi, err); err != nil {
		return nil, err
	}
	paths, err := p.resolve()
	if err != nil {
		return nil, err
	}
	r := &Ruleset{handled: fileRights | dirRights, paths: paths, known: make(map[file]bool)}
	var scoped uint64
	if abi < DevicesABI {
		r.handled &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= ScopesABI {
		scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		if p.OwnSignals {
			scoped |= unix.LANDLOCK_SCOPE_SIGNAL
		}
	}
	if r.fd, err = createRuleset(r.handled, scoped); err != nil {
		return nil, err
	}
	if err := r.fill(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func createRuleset(handled, scoped uint64) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled, Scoped: scoped}
	size := unsafe.Offsetof(attr.Quiet_access_fs) // older kernels accept zeros beyond what they know
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("creating a Landlock ruleset: %w", errno)
	}
	return int(fd), nil
}

// fill adds the rules.
func (r *Ruleset) fill() error {
	for _, path := range r.paths.protected {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil {
			r.known[file{st.Dev, st.Ino}] = true
		}
	}
	for _, path := range r.paths.writable {
		fd, err := openReal(path)
		if err != nil {
			return fmt.Errorf("read_write_paths: %s: %w", path, err)
		}
		err = r.allow(fd, path)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("read_write_paths: %w", err)
		}
	}
	for _, path := range devices {
		if r.paths.isProtected(path) {
			continue
		}
		fd, err := openReal(path)
		if err != nil { // a container may have none, and /dev/ptmx may be a link into /dev/pts
			continue
		}
		err = r.allow(fd, path)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// openReal opens a path in which a symbolic link has appeared since it was looked up: that is an
// error.
func openReal(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
}

// allow makes a file or a directory writable, or the entries of a directory that contains
// something protected.
func (r *Ruleset) allow(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	rights := uint64(fileRights)
	switch isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; {
	case r.known[file{st.Dev, st.Ino}]: // by another name: rules are about files, not names
		return nil
	case isDir && r.paths.isSplit(path):
		return r.allowEntries(fd, path)
	case isDir:
		rights |= dirRights
	}
	if r.rules++; r.rules > maxRules {
		return tooMany(filepath.Dir(path))
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("%s: adding a Landlock rule: %w", path, errno)
	}
	return nil
}

// allowEntries makes the entries of a directory writable that are not protected. Symbolic links
// get no rule, since their targets count.
func (r *Ruleset) allowEntries(fd int, path string) error {
	open, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	dir := os.NewFile(uintptr(open), path)
	defer dir.Close()
	names, err := dir.Readdirnames(maxRules + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", path, err)
	case len(names) > maxRules:
		return tooMany(path)
	}
	for _, name := range names {
		entry := filepath.Join(path, name)
		if r.paths.isProtected(entry) {
			continue
		}
		fd, err := unix.Openat(open, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("%s: %w", entry, err)
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
			err = r.allow(fd, entry)
		}
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

func tooMany(dir string) error {
	return fmt.Errorf("%s: more than %d entries next to read_only_paths; protect a whole directory, or name what is "+
		"writable", dir, maxRules)
}

// Restrict limits the calling thread, and what it forks or executes. It cannot be undone. The
// caller must have locked its goroutine to the thread, and set no_new_privs.
func (r *Ruleset) Restrict() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("limiting writes by Landlock: %w", errno)
	}
	return nil
}

// Close releases the Ruleset. Processes that were started with it stay limited.
func (r *Ruleset) Close() {
	if r != nil {
		unix.Close(r.fd)
	}
}
