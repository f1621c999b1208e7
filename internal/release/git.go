package release

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// Waits for lock files of git, which other commands on the repository hold for a moment.
const (
	lockTimeout  = 30 * time.Second
	lockPause    = 2 * time.Millisecond // doubled up to maxLockPause
	maxLockPause = 100 * time.Millisecond
)

// settings apply to each git command. They stop git from running programs that the configuration of the
// repository names, except filters, and make trailers mean the same everywhere.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=false",
	"core.safecrlf=false", "core.commentChar=#", "trailer.separators=:", "i18n.commitEncoding=UTF-8",
	"i18n.logOutputEncoding=UTF-8", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false",
	"log.showSignature=false",
}

// git runs git commands on one repository.
type git struct {
	dir   string         // the git directory
	work  string         // the work tree; "" for none
	index string         // the index file; "" for the one of the git directory
	env   []string       // further variables
	keep  *filelock.Lock // a lock that the command keeps if this process is killed
}

// run runs a git command and returns its output. While lock files of other commands make it fail, run
// repeats it, for at most lockTimeout.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	return g.runWith(ctx, "", args...)
}

// line runs a command like run, and returns its output without the newline at the end.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// names runs a command that prints names, each followed by NUL.
func (g git) names(ctx context.Context, args ...string) ([]string, error) {
	out, err := g.run(ctx, args...)
	return split(out), err
}

func split(out string) []string {
	if out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}

// runWith runs a command like run, with a standard input.
func (g git) runWith(ctx context.Context, input string, args ...string) (string, error) {
	deadline := time.Now().Add(lockTimeout)
	for pause := lockPause; ; pause = min(2*pause, maxLockPause) {
		out, err := g.command(input, args...).Output(ctx)
		if !isLocked(err) || time.Now().After(deadline) {
			return out, err
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
	}
}

// isLocked reports whether a command failed because of a lock file of another command.
func isLocked(err error) bool {
	failed, ok := errors.AsType[*gitcmd.Error](err)
	return ok && strings.Contains(failed.Stderr, ".lock': File exists")
}

// read runs a command once and has its output read.
func (g git) read(ctx context.Context, read func(io.Reader) error, args ...string) error {
	return g.command("", args...).Read(ctx, read)
}

func (g git) command(input string, args ...string) gitcmd.Command {
	// Objects that are missing in a partial clone would be fetched by a command that the configuration names.
	env := append(gitcmd.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_LITERAL_PATHSPECS=1")
	c := gitcmd.Command{Dir: g.work, Env: slices.Concat(env, g.env), Stdin: strings.NewReader(input)}
	for _, s := range settings {
		c.Args = append(c.Args, "-c", s)
	}
	if g.dir != "" {
		c.Args = append(c.Args, "--git-dir="+g.dir)
	}
	if g.work != "" {
		c.Args = append(c.Args, "--work-tree="+g.work)
	}
	if g.index != "" {
		c.Env = append(c.Env, "GIT_INDEX_FILE="+g.index)
	}
	if g.keep != nil {
		c.Files = []*os.File{g.keep.File()}
	}
	c.Args = append(c.Args, args...)
	return c
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

func now() time.Time { return time.Now() }
