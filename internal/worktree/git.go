package worktree

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// Waits for lock files of git, which other commands on the repository hold for a moment.
const (
	lockPatience = 30 * time.Second
	lockPause    = 10 * time.Millisecond // doubled up to maxLockPause
	maxLockPause = 500 * time.Millisecond
)

// settings apply to each git command. They stop git from running programs that the configuration of an
// untrusted worktree names, except the filters of a checkout, and make git examine each file.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.pager=cat",
	"core.editor=false", "core.checkStat=default", "core.trustctime=true", "core.ignoreStat=false",
	"core.safecrlf=false", "core.logAllRefUpdates=false", "gc.auto=0", "maintenance.auto=false",
	"submodule.recurse=false", "worktree.useRelativePaths=false", "log.showSignature=false",
	"advice.addEmbeddedRepo=false",
}

// git runs git commands on one repository.
type git struct {
	dir     string           // the git directory
	work    string           // the work tree; "" for none
	index   string           // the index file; "" for the one of the git directory
	network bool             // git may fetch objects that are missing in a partial clone
	env     []string         // further variables
	keep    []*filelock.Lock // the command keeps these locks if this process is killed
}

// locked reports whether a command failed because of a lock file of another command.
func locked(err error) bool {
	failed, ok := errors.AsType[*gitcmd.Error](err)
	return ok && strings.Contains(failed.Stderr, "File exists") &&
		(strings.Contains(failed.Stderr, ".lock'") || strings.Contains(failed.Stderr, "could not lock config file"))
}

// run runs a git command and returns its output. While lock files of other commands make it fail, run
// repeats it, for at most lockPatience.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	return g.runWith(ctx, "", args...)
}

// line runs a command like run, and returns its output without the newline at the end.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// names runs a command that prints names, each followed by NUL, and returns the names.
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

// runWith runs a command like run, with a standard input.
func (g git) runWith(ctx context.Context, input string, args ...string) (string, error) {
	deadline := time.Now().Add(lockPatience)
	for pause := lockPause; ; pause = min(2*pause, maxLockPause) {
		out, err := g.command(input, args...).Output(ctx)
		if !locked(err) || time.Now().After(deadline) {
			return out, err
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
	}
}

// stream runs a git command once and writes its output to out.
func (g git) stream(ctx context.Context, input string, out io.Writer, args ...string) error {
	return g.command(input, args...).Run(ctx, out)
}

func (g git) command(input string, args ...string) gitcmd.Command {
	c := gitcmd.Command{Dir: g.work, Env: g.environment(), Stdin: strings.NewReader(input)}
	for _, s := range settings {
		c.Args = append(c.Args, "-c", s)
	}
	if g.dir != "" {
		c.Args = append(c.Args, "--git-dir="+g.dir)
	}
	if g.work != "" {
		c.Args = append(c.Args, "--work-tree="+g.work)
	}
	c.Args = append(c.Args, args...)
	for _, l := range g.keep {
		c.Files = append(c.Files, l.File())
	}
	return c
}

func (g git) environment() []string {
	env := gitcmd.Environ()
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

// ignored returns those of some paths in the work tree that git ignores. A tracked path is not ignored.
func (g git) ignored(ctx context.Context, paths []string) (all []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	// "./" keeps git from taking ":(exclude)" and the like for a pattern.
	out, err := g.runWith(ctx, "./"+strings.Join(paths, "\x00./")+"\x00", "check-ignore", "-z", "--stdin")
	if gitcmd.ExitCode(err) == 1 { // none is
		err = nil
	}
	for _, path := range splitNames(out) {
		all = append(all, strings.TrimPrefix(path, "./"))
	}
	return all, err
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
