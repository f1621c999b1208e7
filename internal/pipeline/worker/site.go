package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/pipeline/attempt"
	"github.com/coppice-dev/coppice/internal/release"
	"github.com/coppice-dev/coppice/internal/worktree"
)

// site is where an attempt works: a repository, and its worktrees.
type site struct {
	*job
	trees  *worktree.Repo
	repo   *release.Repo
	branch string             // that the change is for
	tree   *worktree.Worktree // of the attempt, while it goes through the stages
}

// open opens the repository of the pipeline.
func (s *site) open(ctx context.Context, setUp worktree.Runner) (err error) {
	o := worktree.Options{SetUp: s.settings.SetUp, Runner: setUp}
	if s.settings.Ports > 0 {
		o.Ports = worktree.PortRange{First: pipeline.FirstPort, Last: pipeline.LastPort, Each: s.settings.Ports}
	}
	if s.trees, err = worktree.Open(ctx, s.settings.Repository, o); err != nil {
		return err
	}
	if s.repo, err = release.Open(ctx, s.settings.Repository); err != nil {
		return err
	}
	if s.branch = s.settings.Branch; s.branch == "" {
		s.branch, err = s.current(ctx)
	}
	return err
}

// inTree calls do in a new worktree of the attempt, at a commit, and removes it afterwards. What was not merged is
// kept.
func (s *site) inTree(
	ctx context.Context, base string, do func(context.Context) (*released, error),
) (done *released, err error) {
	if err := s.removeEarlier(ctx); err != nil {
		return nil, err
	}
	at := worktree.Attempt{Task: s.facts.Task.Task.ID, Number: s.facts.Number, Base: base}
	if s.tree, err = s.trees.Create(ctx, at); err != nil {
		if errors.Is(err, errSetUp) {
			return nil, attempt.Retry(s.stage, outcome.VerificationFailed, "the set-up of the worktree has failed: %v",
				err)
		}
		return nil, err
	}
	s.progress.Worktree = s.tree.Path
	s.announce(s.progress)
	defer func() {
		if s.tree.Release() == nil && ctx.Err() == nil {
			s.remove(ctx, at)
		}
	}()
	done, err = do(ctx)
	if err != nil && ctx.Err() == nil {
		if broken := s.trees.Check(ctx, at); errors.Is(broken, worktree.ErrCorrupt) {
			return nil, broken
		}
	}
	return done, err
}

// removeEarlier removes the worktrees that earlier attempts at the task have left, as their worker was killed.
func (s *site) removeEarlier(ctx context.Context) error {
	all, err := s.trees.List(ctx)
	if err != nil {
		return err
	}
	id := s.facts.Task.Task.ID
	for _, tree := range all {
		if (tree.Task == id || strings.HasPrefix(tree.Task, id+" ")) && !tree.InUse { // see elsewhere
			s.remove(ctx, tree.Attempt)
		}
	}
	return nil
}

// remove removes a worktree. If it cannot be removed without losing work, it stays, for coppice gc.
func (s *site) remove(ctx context.Context, at worktree.Attempt) {
	removed, err := s.trees.Remove(ctx, at)
	switch {
	case err != nil:
		s.say("%s stays: %v", at, err)
	case removed.Parked != "":
		s.say("%s is removed; what was not merged is %s", at, removed.Parked)
	}
}

// elsewhere calls do in a worktree of its own, at a commit.
func (s *site) elsewhere(ctx context.Context, name, commit string, do func(*worktree.Worktree) error) error {
	at := worktree.Attempt{Task: s.facts.Task.Task.ID + " " + name, Number: s.facts.Number, Base: commit}
	// A killed worker may have left it.
	if _, err := s.trees.Remove(ctx, at); err != nil {
		return fmt.Errorf("%s cannot be removed: %w", at, err)
	}
	t, err := s.trees.Create(ctx, at)
	if err != nil {
		return err
	}
	defer func() {
		if t.Release() == nil && ctx.Err() == nil {
			s.remove(ctx, at)
		}
	}()
	return do(t)
}

// settle makes the worktree of the attempt, if there is one, that of a commit that has its content and is kept by a
// branch. Then nothing is lost with it. If that fails the content is kept once more.
func (s *site) settle(ctx context.Context, commit string) {
	if s.tree == nil {
		return
	}
	_, err := s.git(ctx, "update-ref", "refs/heads/"+s.tree.Branch(), commit)
	if err == nil {
		_, err = s.git(ctx, "-C", s.tree.Path, "read-tree", commit)
	}
	if err != nil {
		s.say("%v", err)
	}
}

// git runs git in the repository, and returns its output.
func (s *site) git(ctx context.Context, args ...string) (string, error) {
	return git.Runner{}.Run(ctx, append([]string{"-C", s.settings.Repository}, args...)...)
}

// current returns the branch that is checked out in the repository.
func (s *site) current(ctx context.Context) (string, error) {
	out, err := s.git(ctx, "symbolic-ref", "--short", "HEAD")
	if err != nil {
		return "", fmt.Errorf("no branch is checked out there; name one as branch of [agent.pipeline]: %w", err)
	}
	return strings.TrimSuffix(out, "\n"), nil
}

// diff returns the change from a commit to a tree.
func (s *site) diff(ctx context.Context, base, tree string) (string, error) {
	return s.git(ctx, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", base, tree)
}

// treeOf returns the content of a commit.
func (s *site) treeOf(ctx context.Context, commit string) (string, error) {
	out, err := s.git(ctx, "rev-parse", "--verify", commit+"^{tree}")
	return strings.TrimSuffix(out, "\n"), err
}

// common returns the directory of git that all worktrees of the repository share.
func (s *site) common(ctx context.Context) (string, error) {
	out, err := s.git(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	return strings.TrimSuffix(out, "\n"), err
}
