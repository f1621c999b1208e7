package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/landlock"
)

// Command describes a process to start. It is a plain value; Start does not keep references to
// its slices.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked up in the PATH
	// of Env; one with a slash is relative to Dir.
	Argv []string

	// Dir is the working directory; empty means the current one.
	Dir string

	// Env is the complete environment, as KEY=value. See Environ.
	Env []string

	// Stdin is passed to the process; the caller still closes it. Nil means /dev/null.
	Stdin *os.File

	// Input makes stdin a pipe for Process.Write, instead of Stdin.
	Input bool

	// Terminal makes stdin, stdout and stderr a pseudo terminal of this size (DefaultSize if
	// zero), instead of Stdin and Input. It is the controlling terminal of a new session. All
	// output is Stdout then.
	Terminal *Size

	// Reaper must be set if this program collects orphans, so that it does not collect the
	// process.
	Reaper *Reaper

	// Mark identifies the process and all its descendants for Reaper.Strays, wherever they move
	// and whatever they do to their environment. Linux only, and with a Reaper only; see MarkOf.
	Mark Mark

	// Group is the directory of the control group (Linux, cgroup v2) in which the process is
	// created; the caller still closes it. Nil means the group of this program. It is ignored
	// elsewhere.
	Group *os.File

	// NoNewPrivileges keeps the process and its descendants from gaining privileges by execve.
	// Linux only; elsewhere Start fails.
	NoNewPrivileges bool

	// Paths limits where the process and its descendants may write; nil means no limit. They
	// cannot gain privileges then, as with NoNewPrivileges. If the kernel cannot enforce that,
	// Start fails.
	Paths *landlock.Paths

	// User is the account that the process runs as, with its groups; nil means that of this
	// program. The output files belong to the user. Environment variables are not changed. Linux
	// only; elsewhere Start fails.
	User *account.Account

	// StopSignal asks the process group to end; SIGTERM if zero.
	StopSignal syscall.Signal
}

// DefaultGrace is the time from the stop signal to SIGKILL if none is configured.
const DefaultGrace = 5 * time.Second

// ErrCommand is wrapped by errors of Start and LookPath that another try cannot cure, such as a
// program that does not exist or is not executable.
var ErrCommand = errors.New("command cannot be run")

func (c *Command) stopSignal() syscall.Signal {
	if c.StopSignal == 0 {
		return syscall.SIGTERM
	}
	return c.StopSignal
}

// Check finds what execve would refuse or silently cut off.
func (c *Command) Check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return fmt.Errorf("%w: no program named", ErrCommand)
	}
	for i, a := range c.Argv {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("%w: argument %d contains a NUL byte", ErrCommand, i)
		}
	}
	for _, kv := range c.Env {
		k, _, ok := strings.Cut(kv, "=")
		if !ok || k == "" || strings.IndexByte(kv, 0) >= 0 {
			return fmt.Errorf("%w: environment entry %.80q is not KEY=value", ErrCommand, kv)
		}
	}
	if strings.IndexByte(c.Dir, 0) >= 0 {
		return fmt.Errorf("%w: working directory %.80q contains a NUL byte", ErrCommand, c.Dir)
	}
	return nil
}

// LookPath returns the file that a Command with this program, Dir and Env would run. It skips
// relative entries of PATH, since their meaning depends on the caller's directory. Errors wrap
// ErrCommand.
func LookPath(program, dir string, env []string) (string, error) {
	if program == "" {
		return "", fmt.Errorf("%w: no program named", ErrCommand)
	}
	if strings.Contains(program, "/") {
		file := program
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
			if !filepath.IsAbs(file) {
				file = "./" + file // removed by Join
			}
		}
		if err := executable(file); err != nil {
			return "", fmt.Errorf("%w: %w", ErrCommand, err)
		}
		return file, nil
	}
	var denied error
	path := pathOf(env)
	for d := range strings.SplitSeq(path, string(filepath.ListSeparator)) {
		if !filepath.IsAbs(d) {
			continue
		}
		file := filepath.Join(d, program)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", fmt.Errorf("%w: %w", ErrCommand, denied)
	}
	return "", fmt.Errorf("%w: %s not found in PATH %s: %w", ErrCommand, program, path, fs.ErrNotExist)
}

// pathOf returns the PATH of an environment, or the default of execvp.
func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return "/bin:/usr/bin"
}

// executable reports why a file cannot be executed.
func executable(file string) error {
	mode, err := modeOf(file)
	switch {
	case err != nil:
		return &fs.PathError{Op: "stat", Path: file, Err: err}
	case mode&syscall.S_IFMT == syscall.S_IFDIR:
		return fmt.Errorf("%s is a directory: %w", file, syscall.EISDIR)
	case mode&0o111 == 0:
		return fmt.Errorf("%s is not executable: %w", file, fs.ErrPermission)
	}
	return nil
}

// modeOf returns the type and the permissions of a file, as the kernel has them. It calls stat itself:
// each os.Stat allocates 350 bytes, and there is one for each directory of PATH at each start.
func modeOf(file string) (uint64, error) {
	var st syscall.Stat_t
	err := syscall.Stat(file, &st)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Stat(file, &st)
	}
	return uint64(st.Mode), err
}

// explain turns the bare errno of fork and exec into a useful error. It looks at the files
// again, so it is for the failing path only.
func (c *Command) explain(file string, err error) error {
	if errors.Is(err, ErrCommand) {
		return err
	}
	if c.User != nil && errors.Is(err, syscall.EACCES) {
		for _, path := range []string{c.Dir, file} {
			if e := c.User.Reach(path, account.Execute); path != "" && e != nil {
				return fmt.Errorf("%w: %w", ErrCommand, e)
			}
		}
	}
	if c.Dir != "" {
		st, e := os.Stat(c.Dir)
		switch {
		case e != nil:
			return fmt.Errorf("%w: working directory: %w", ErrCommand, e)
		case !st.IsDir():
			return fmt.Errorf("%w: working directory %s: %w", ErrCommand, c.Dir, syscall.ENOTDIR)
		}
	}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOTDIR):
		if _, e := LookPath(file, c.Dir, c.Env); e != nil {
			return e
		}
	}
	return ExecError(file, err)
}

// ExecError explains an error of execve for a file that exists and is executable.
func ExecError(file string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: %s: the interpreter that its first line names does not exist: %w", ErrCommand, file, err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: %s is neither a program for this machine nor a script with a #! line: %w", ErrCommand,
			file, err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%w: arguments and environment are too large: %w", ErrCommand, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s: %w", ErrCommand, file, err)
	}
	return fmt.Errorf("running %s: %w", strings.ToValidUTF8(file, "\uFFFD"), err)
}
