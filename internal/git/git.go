// Package git runs git commands, and those of programs for git, with bounded time and output, and with an environment
// that names no other repository.
package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Bounds of one command.
const (
	Timeout   = 15 * time.Minute // a checkout with filters such as git-lfs may download
	MaxOutput = 512 << 20        // bytes of Output: the names of all files of a large repository

	maxStderr = 8 << 10         // bytes
	waitDelay = 5 * time.Second // for children that keep its output open
)

// Command is a git command. Its process group is killed when the context or Timeout ends.
type Command struct {
	Program string   // "git" by default
	Args    []string // of the program
	Dir     string   // the current directory if empty
	Env     []string // the whole environment, such as Environ
	Stdin   io.Reader
	Files   []*os.File // open in the command from file descriptor 3 on
}

// Error is the error of a command that has failed.
type Error struct {
	Program string // such as "git"
	Command string // such as "diff"
	Stderr  string // what it has written there, at most 8 KiB
	Err     error
}

func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("%s %s: %v", e.Program, e.Command, e.Err)
	}
	return fmt.Sprintf("%s %s: %s (%v)", e.Program, e.Command, plaintext.OneLine(e.Stderr, 1000), e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns the exit code of a command that has failed, or -1.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// Run runs the command and writes its standard output to out. Errors are of type *Error.
func (c Command) Run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("it took longer than %v", Timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program(), c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = c.Dir, c.Env, c.Stdin, out, c.Files
	stderr := &beginning{left: maxStderr}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return &Error{c.program(), c.name(), stderr.text.String(), err}
	}
	return nil
}

func (c Command) program() string { return cmp.Or(c.Program, "git") }

// name returns the name of the command, which follows the options of git itself.
func (c Command) name() string {
	for i := 0; i < len(c.Args); i++ {
		switch arg := c.Args[i]; {
		case arg == "-c" || arg == "-C":
			i++
		case len(arg) == 0 || arg[0] != '-':
			return arg
		}
	}
	return ""
}

// Read runs the command and has its standard output read. If that fails, the command is killed, and the
// error is that of read. What is not read is dropped.
func (c Command) Read(ctx context.Context, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := read(r)
		if err != nil {
			cancel()
		}
		_, _ = io.Copy(io.Discard, r)
		done <- err
	}()
	err := c.Run(ctx, w)
	w.Close()
	if readErr := <-done; readErr != nil {
		return fmt.Errorf("%s %s: %w", c.program(), c.name(), readErr)
	}
	return err
}

// Output runs the command and returns its standard output. More than MaxOutput is an error.
func (c Command) Output(ctx context.Context) (string, error) {
	var out bytes.Buffer
	err := c.Read(ctx, func(r io.Reader) error {
		n, err := io.Copy(&out, io.LimitReader(r, MaxOutput+1))
		if err == nil && n > MaxOutput {
			err = fmt.Errorf("it has more than %d MiB of output", MaxOutput>>20)
		}
		return err
	})
	return out.String(), err
}

// beginning keeps the first bytes that are written to it. It has no other method of a buffer: os/exec
// would use ReadFrom, which knows no bound.
type beginning struct {
	text bytes.Buffer
	left int
}

func (b *beginning) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.text.Write(p[:n])
	b.left -= n
	return len(p), nil
}

// passedOn are the variables of this process that git gets, and the filters of a repository with it.
func passedOn() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
		"XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
		"no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	}
}

// Environ returns an environment for git: without GIT_ variables of this process, without questions to a
// user, without a pager and optional locks, with messages in English, and with objects as they are,
// whatever replaces them.
func Environ() []string {
	env := []string{
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true",
		"GIT_PAGER=cat", "GIT_NO_REPLACE_OBJECTS=1",
	}
	for _, name := range passedOn() {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
