package worktree

import (
	"context"
	"strings"

	"github.com/coppice-dev/coppice/internal/filelock"
	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// git runs git commands on one repository.
type git struct{ gitcmd.Runner }

// gitIn returns what runs git commands on a git directory and a work tree, each found by git if it is empty. They
// run no program that the configuration of an untrusted worktree names, except the filters of a checkout, and examine
// each file.
func gitIn(dir, work string) git {
	return git{gitcmd.Runner{Dir: dir, Work: work, Config: []string{
		"core.untrackedCache=false", "core.checkStat=default", "core.trustctime=true", "core.ignoreStat=false",
		"core.logAllRefUpdates=false", "worktree.useRelativePaths=false", "advice.addEmbeddedRepo=false",
	}}}
}

// keeping returns g with commands that keep some locks if this process is killed.
func (g git) keeping(locks ...*filelock.Lock) git {
	g.Files = nil
	for _, l := range locks {
		g.Files = append(g.Files, l.File())
	}
	return g
}

// commit returns the commit that a revision names, and reports whether there is one.
func (g git) commit(ctx context.Context, revision string) (string, bool) {
	id, err := g.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	return id, err == nil && id != ""
}

// ignored returns those of some paths in the work tree that git ignores. A tracked path is not ignored.
func (g git) ignored(ctx context.Context, paths []string) (all []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	// "./" keeps git from taking ":(exclude)" and the like for a pattern.
	out, err := g.RunWith(ctx, "./"+strings.Join(paths, "\x00./")+"\x00", "check-ignore", "-z", "--stdin")
	if gitcmd.ExitCode(err) == 1 { // none is
		err = nil
	}
	for _, path := range gitcmd.Split(out) {
		all = append(all, strings.TrimPrefix(path, "./"))
	}
	return all, err
}
