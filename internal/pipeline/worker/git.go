package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/git"
)

// git runs git in the repository, and returns its output.
func (a *run) git(ctx context.Context, args ...string) (string, error) {
	return git.Runner{}.Run(ctx, append([]string{"-C", a.settings.Repository}, args...)...)
}

// current returns the branch that is checked out in the repository.
func (a *run) current(ctx context.Context) (string, error) {
	out, err := a.git(ctx, "symbolic-ref", "--short", "HEAD")
	if err != nil {
		return "", fmt.Errorf("no branch is checked out there; name one as branch of [agent.pipeline]: %w", err)
	}
	return strings.TrimSuffix(out, "\n"), nil
}

// diff returns the change from a commit to a tree.
func (a *run) diff(ctx context.Context, base, tree string) (string, error) {
	return a.git(ctx, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", base, tree)
}

// treeOf returns the content of a commit.
func (a *run) treeOf(ctx context.Context, commit string) (string, error) {
	out, err := a.git(ctx, "rev-parse", "--verify", commit+"^{tree}")
	return strings.TrimSuffix(out, "\n"), err
}

// openRuns opens the store of runs of tests in the directory of git that all worktrees share.
func (a *run) openRuns(ctx context.Context) error {
	out, err := a.git(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err == nil {
		a.runs, err = openRuns(strings.TrimSuffix(out, "\n"))
	}
	return err
}
