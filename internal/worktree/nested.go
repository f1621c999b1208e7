package worktree

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// refuseNested returns ErrNotKept if a worktree has another repository in it, such as a submodule, with
// work that is in none of its remotes: git keeps no more than the name of its commit. It reports whether
// there is another repository.
func (repo *gitRepo) refuseNested(ctx context.Context, admin, work string) (found bool, err error) {
	_, g := repo.gitOf(ctx, admin, work)
	dirs, err := nested(ctx, g)
	if err != nil {
		return false, err
	}
	for _, dir := range dirs {
		if what := unpublished(ctx, filepath.Join(g.Work, dir)); what != "" {
			return true, fmt.Errorf("%w: the repository %q in the worktree has %s; push it or remove it",
				ErrNotKept, dir, what)
		}
	}
	return len(dirs) > 0, nil
}

// nested returns the directories in a worktree that are repositories of their own and not ignored.
func nested(ctx context.Context, g git) (dirs []string, err error) {
	err = filepath.WalkDir(g.Work, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != ".git" {
			return err
		}
		dir, ok := below(g.Work, filepath.Dir(path))
		switch {
		case ok:
			dirs = append(dirs, dir)
		case e.IsDir(): // in place of the file .git of the worktree
			dirs = append(dirs, ".")
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ignored, err := g.ignored(ctx, slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == "." }))
	return slices.DeleteFunc(dirs, func(d string) bool { return slices.Contains(ignored, d) }), err
}

// unpublished describes work in a repository that is in none of its remotes; "" if there is none. That work
// would be deleted with the worktree around the repository.
func unpublished(ctx context.Context, dir string) (what string) {
	g := gitIn("", dir)
	discover := func(flag string) string {
		path, err := gitIn("", "").Line(ctx, "-C", dir, "rev-parse", "--path-format=absolute", flag)
		if err != nil {
			return ""
		}
		return path
	}
	if g.Dir = discover("--git-dir"); g.Dir == "" || discover("--show-toplevel") != dir {
		return "a git directory that cannot be read"
	}
	// An agent has written this configuration: git status would run the filters that it names.
	keys, err := g.Names(ctx, "config", "--local", "--includes", "--list", "--name-only", "-z")
	if err != nil || slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "filter.") }) {
		return "a configuration with filters of its own"
	}
	if worktree, err := g.Line(ctx, "config", "--bool", "extensions.worktreeConfig"); err == nil && worktree == "true" {
		return "a configuration of its worktree"
	}
	// Repositories in this one are looked at on their own.
	status, err := g.Run(ctx, "status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=dirty")
	if err != nil {
		return "a state that cannot be read"
	}
	if status != "" {
		return "changes that are not committed"
	}
	args := []string{"rev-list", "--max-count=1", "--branches", "--tags", "--glob=refs/stash"}
	if _, ok := g.commit(ctx, "HEAD"); ok {
		args = append(args, "HEAD")
	}
	commit, err := g.Line(ctx, append(args, "--not", "--remotes")...)
	if err != nil {
		return "commits that cannot be read"
	}
	if commit != "" {
		return "commits that are in none of its remotes"
	}
	return ""
}
