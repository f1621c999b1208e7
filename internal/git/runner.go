package git

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
)

// Runner runs git commands on one repository. None of them runs a hook, a file system monitor, an editor or a pager
// that the configuration names, and none collects garbage.
type Runner struct {
	Config []string // further settings, each "name=value"
	Dir    string   // the git directory; git looks for it if empty
	Work   string   // the work tree, in which the commands run; none if empty
	Index  string   // the index file; that of the git directory if empty
	Env    []string // variables in addition to Environ
	// Network lets git fetch objects that are missing in a partial clone, by a command that the configuration names.
	Network bool
	Files   []*os.File // open in the commands from file descriptor 3 on, also when this process is killed
}

// settings apply to each command of a Runner.
func settings() []string {
	return []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=false",
		"core.safecrlf=false", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false",
		"log.showSignature=false",
	}
}

// Run runs a git command and returns its output. While lock files of other commands make it fail, it is repeated, for
// at most LockTimeout.
func (r Runner) Run(ctx context.Context, args ...string) (string, error) {
	return r.RunWith(ctx, "", args...)
}

// RunWith runs a command like Run, with a standard input.
func (r Runner) RunWith(ctx context.Context, input string, args ...string) (out string, err error) {
	err = RetryLocked(ctx, func() (bool, error) {
		out, err = r.Command(input, args...).Output(ctx)
		return isLocked(err), err
	})
	return out, err
}

// Line runs a command like Run, and returns its output without the newline at the end.
func (r Runner) Line(ctx context.Context, args ...string) (string, error) {
	out, err := r.Run(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// Names runs a command like Run that prints names, each followed by NUL, and returns the names.
func (r Runner) Names(ctx context.Context, args ...string) ([]string, error) {
	out, err := r.Run(ctx, args...)
	return Split(out), err
}

// Split returns the names in a text, each followed by NUL.
func Split(out string) []string {
	if out == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
}

// Read runs a command once and has its output read; see Command.Read.
func (r Runner) Read(ctx context.Context, read func(io.Reader) error, args ...string) error {
	return r.Command("", args...).Read(ctx, read)
}

// Command returns a command with a standard input.
func (r Runner) Command(input string, args ...string) Command {
	c := Command{Dir: r.Work, Env: Environ(), Stdin: strings.NewReader(input), Files: r.Files}
	if r.Index != "" {
		c.Env = append(c.Env, "GIT_INDEX_FILE="+r.Index)
	}
	if !r.Network {
		c.Env = append(c.Env, "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
	}
	c.Env = append(c.Env, r.Env...)
	for _, s := range slices.Concat(settings(), r.Config) {
		c.Args = append(c.Args, "-c", s)
	}
	if r.Dir != "" {
		c.Args = append(c.Args, "--git-dir="+r.Dir)
	}
	if r.Work != "" {
		c.Args = append(c.Args, "--work-tree="+r.Work)
	}
	c.Args = append(c.Args, args...)
	return c
}
