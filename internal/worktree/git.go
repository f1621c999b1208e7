package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Bounds of one git command.
const (
	gitTimeout   = 15 * time.Minute // a checkout with filters such as git-lfs may download
	gitWaitDelay = 5 * time.Second  // for children that keep its output open
	maxOutput    = 256 << 20        // bytes: the names of all files of a large repository
	maxStderr    = 8 << 10          // bytes
)

// Waits for lock files of git, which other commands on the repository hold for a moment.
const (
	lockPatience = 30 * time.Second
	lockPause    = 10 * time.Millisecond // doubled up to maxLockPause
	maxLockPause = 500 * time.Millisecond
)

// settings are set for each git command. They keep programs from being run that the configuration
// of an untrusted worktree can name, except for the filters of a checkout, and make git look at
// each file.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.pager=cat",
	"core.editor=false", "core.checkStat=default", "core.trustctime=true", "core.ignoreStat=false",
	"core.safecrlf=false", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false",
	"submodule.recurse=false", "worktree.useRelativePaths=false", "log.showSignature=false",
	"advice.addEmbeddedRepo=false",
}

// passedOn are the variables of the environment that git and the filters of a repository get.
var passedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
	"XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
	"no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// git runs git commands on one repository.
type git struct {
	dir     string      // the git directory
	work    string      // the work tree; "" for none
	index   string      // the index file; "" for the one of the git directory
	network bool        // git may fetch objects that are missing in a partial clone
	env     []string    // further variables
	keep    []*fileLock // the command keeps these locks if this process is killed
}

// gitError is a git command that has failed.
type gitError struct {
	command string
	stderr  string
	err     error
}

func (e *gitError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("git %s: %v", e.command, e.err)
	}
	return fmt.Sprintf("git %s: %s (%v)", e.command, plaintext.OneLine(e.stderr, 1000), e.err)
}

func (e *gitError) Unwrap() error { return e.err }

// locked reports whether the command found a lock file of another one.
func (e *gitError) locked() bool {
	return strings.Contains(e.stderr, "File exists") &&
		(strings.Contains(e.stderr, ".lock'") || strings.Contains(e.stderr, "could not lock config file"))
}

// exitCode returns the exit code of a git command that has failed, or -1.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// run runs a git command and returns its output. While it meets lock files of other commands, it is
// run again, for at most lockPatience.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	return g.runWith(ctx, "", args...)
}

// line is run without the newline at the end of the output.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// names is run for commands that print names that end with NUL.
func (g git) names(ctx context.Context, args ...string) ([]string, error) {
	out, err := g.run(ctx, args...)
	return splitNames(out), err
}

func splitNames(out string) []string {
	if out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}

// runWith is run with a standard input.
func (g git) runWith(ctx context.Context, input string, args ...string) (string, error) {
	deadline := time.Now().Add(lockPatience)
	for pause := lockPause; ; pause = min(2*pause, maxLockPause) {
		out := &bounded{limit: maxOutput}
		err := g.stream(ctx, input, out, args...)
		if failed := new(gitError); !errors.As(err, &failed) || !failed.locked() || time.Now().After(deadline) {
			return out.String(), err
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
	}
}

// stream runs a git command once and writes its output to out.
func (g git) stream(ctx context.Context, input string, out io.Writer, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	var all []string
	for _, s := range settings {
		all = append(all, "-c", s)
	}
	if g.dir != "" {
		all = append(all, "--git-dir="+g.dir)
	}
	if g.work != "" {
		all = append(all, "--work-tree="+g.work)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Dir = g.work
	cmd.Env = g.environment()
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout = out
	stderr := &bounded{limit: maxStderr, drop: true}
	cmd.Stderr = stderr
	for _, l := range g.keep {
		cmd.ExtraFiles = append(cmd.ExtraFiles, l.file)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitWaitDelay
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return &gitError{args[0], stderr.String(), err}
	}
	return nil
}

func (g git) environment() []string {
	env := []string{
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true",
		"GIT_PAGER=cat", "GIT_NO_REPLACE_OBJECTS=1",
	}
	for _, name := range passedOn {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	if g.index != "" {
		env = append(env, "GIT_INDEX_FILE="+g.index)
	}
	if !g.network { // a promised object would be fetched by a command that the configuration names
		env = append(env, "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
	}
	return slices.Concat(env, g.env)
}

// commit returns the commit that a revision names, and reports whether there is one.
func (g git) commit(ctx context.Context, revision string) (string, bool) {
	id, err := g.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	return id, err == nil && id != ""
}

// ignored returns those of some paths in the work tree that git ignores. A path that is tracked is not.
func (g git) ignored(ctx context.Context, paths []string) (all []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	// "./" keeps git from taking ":(exclude)" and the like for a pattern.
	out, err := g.runWith(ctx, "./"+strings.Join(paths, "\x00./")+"\x00", "check-ignore", "-z", "--stdin")
	if exitCode(err) == 1 { // none is
		err = nil
	}
	for _, path := range splitNames(out) {
		all = append(all, strings.TrimPrefix(path, "./"))
	}
	return all, err
}

// bounded keeps the first bytes of what is written to it.
type bounded struct {
	bytes.Buffer
	limit int
	drop  bool // drop what is more, instead of an error
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	if len(p) <= room {
		return b.Buffer.Write(p)
	}
	if !b.drop {
		return 0, fmt.Errorf("the output has more than %d bytes", b.limit)
	}
	b.Buffer.Write(p[:max(0, room)])
	return len(p), nil
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
