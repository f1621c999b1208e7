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
)

// Command describes a process to start. It is a plain value; Start does not keep
// references to its slices.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is
	// looked for in the PATH of Env, one with a slash is relative to Dir.
	Argv []string

	// Dir is the working directory; the current one if empty.
	Dir string

	// Env is the complete environment, as KEY=value. See Environ.
	Env []string

	// Stdin is handed to the process and stays the caller's to close; nil is /dev/null.
	Stdin *os.File

	// Input makes stdin a pipe for Process.Write, instead of Stdin.
	Input bool

	// Terminal makes stdin, stdout and stderr a pseudo terminal of this size
	// (DefaultSize if zero) that controls a session of the process's own,
	// instead of Stdin and Input. All output is Stdout then.
	Terminal *Size

	// Reaper leaves the process alone, if this program collects orphans.
	Reaper *Reaper

	// Group is the directory of a control group (Linux, cgroup v2) in which
	// the process is born; it stays the caller's to close. Nil is that of this
	// program. Elsewhere it is ignored.
	Group *os.File

	// NoNewPrivileges keeps the process and its descendants from gaining
	// privileges by what they execute. Linux only; elsewhere Start fails.
	NoNewPrivileges bool

	// User is whom the process runs as, with the groups, where that is not who
	// runs this program; its output belongs to the user. It changes no
	// variables. Linux only; elsewhere Start fails.
	User *account.Account

	// StopSignal asks the process group to end; SIGTERM if zero.
	StopSignal syscall.Signal
}

// DefaultGrace is the time from the stop signal to SIGKILL if none is configured.
const DefaultGrace = 5 * time.Second

// ErrCommand is wrapped by the errors of Start and LookPath that will not go
// away by trying again: nothing to run, not found, not executable, a working
// directory that is none.
var ErrCommand = errors.New("command cannot be run")

func (c *Command) stopSignal() syscall.Signal {
	if c.StopSignal == 0 {
		return syscall.SIGTERM
	}
	return c.StopSignal
}

// Check finds what exec would refuse or, worse, cut short without a word.
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

// LookPath finds the file that a Command with this program, Dir and Env would
// run. Entries of PATH that are not absolute are skipped, since what they find
// depends on who asks. Errors wrap ErrCommand and say what is wrong.
func LookPath(program, dir string, env []string) (string, error) {
	if program == "" {
		return "", fmt.Errorf("%w: no program named", ErrCommand)
	}
	if strings.Contains(program, "/") {
		file := program
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
			if !filepath.IsAbs(file) {
				file = "./" + file // Join cleans it away
			}
		}
		if err := executable(file); err != nil {
			return "", fmt.Errorf("%w: %w", ErrCommand, err)
		}
		return file, nil
	}
	var denied error
	path := pathOf(env)
	for _, d := range filepath.SplitList(path) {
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

// pathOf is the PATH of an environment; without one, what execvp uses.
func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return "/bin:/usr/bin"
}

func executable(file string) error {
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("%s is a directory: %w", file, syscall.EISDIR)
	case st.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: %w", file, fs.ErrPermission)
	}
	return nil
}

// explain turns the bare errno of fork and exec into what the user can act
// on. It looks at the files again, so it is for the failing path only.
func (c *Command) explain(file string, err error) error {
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
