package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
)

// gitRepo owns the data that git has of the repository: branches, the list of worktrees, and the state of
// each worktree. It reads no record and takes no lock of an attempt.
type gitRepo struct {
	common string // the git directory that all worktrees share
	own    string // the git directory of the work tree, which may be a linked one
	top    string // the work tree; "" if the repository is bare
}

// shared runs commands on what all worktrees share.
func (repo *gitRepo) shared() git { return gitIn(repo.common, "") }

// workTree runs commands in the work tree of the repository.
func (repo *gitRepo) workTree() git { return gitIn(repo.own, repo.top) }

// adminDir returns the directory that git keeps of the worktree at a path. It is "" if git knows no
// worktree there.
func (repo *gitRepo) adminDir(path string) (string, error) {
	all := filepath.Join(repo.common, "worktrees")
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		admin := filepath.Join(all, e.Name())
		text, err := private.ReadFile(filepath.Join(admin, "gitdir"), maxGitFile)
		if err == nil && strings.TrimSuffix(string(text), "\n") == filepath.Join(path, ".git") {
			return admin, nil
		}
	}
	return "", nil
}

// resolve returns the commit that a base names.
func (repo *gitRepo) resolve(ctx context.Context, base string) (string, error) {
	if base == "" {
		base = "HEAD"
	}
	commit, ok := gitIn(repo.own, "").commit(ctx, base)
	if !ok {
		return "", fmt.Errorf("the base %q is no commit of the repository", plaintext.OneLine(base, 200))
	}
	return commit, nil
}

// ignore makes git ignore a directory, if that is in the work tree. It is an error if git tracks files in it.
func (repo *gitRepo) ignore(ctx context.Context, dir string) error {
	inside, ok := below(repo.top, dir)
	if !ok {
		return nil
	}
	g := repo.workTree()
	tracked, err := g.Names(ctx, "ls-files", "-z", "--", ":(top,literal)"+inside)
	if err != nil {
		return err
	}
	if len(tracked) > 0 {
		return fmt.Errorf("%s has files that git tracks; choose another directory for worktrees", dir)
	}
	if ignored, err := g.ignored(ctx, []string{inside + "/x"}); err != nil || len(ignored) > 0 {
		return err
	}
	return repo.exclude(inside)
}

// exclude adds a directory in the work tree to the excluded files of the repository.
func (repo *gitRepo) exclude(inside string) error {
	name := filepath.Join(repo.common, "info", "exclude")
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	escaped := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(filepath.ToSlash(inside))
	_, err = file.WriteString("\n/" + escaped + "/\n")
	return err
}

// addWorktree registers a worktree without files and makes its branch. If this process is killed, the command
// keeps the locks.
func (repo *gitRepo) addWorktree(ctx context.Context, path, branch, commit string, locks ...*filelock.Lock) error {
	g := repo.shared().keeping(locks...)
	_, err := g.Run(ctx, "worktree", "add", "--quiet", "--no-checkout", "--no-track", "-b", branch, "--", path, commit)
	return err
}

// removeWorktree unregisters a worktree whose directory is gone. If this process is killed, the command keeps
// the locks.
func (repo *gitRepo) removeWorktree(ctx context.Context, path string, locks ...*filelock.Lock) error {
	g := repo.shared().keeping(locks...)
	_, err := g.Run(ctx, "worktree", "remove", "--force", "--force", "--", path)
	return err
}

// isCheckedOut reports whether a worktree has a branch checked out, which ref names in full.
func (repo *gitRepo) isCheckedOut(ctx context.Context, ref string) (bool, error) {
	lines, err := repo.shared().Names(ctx, "worktree", "list", "--porcelain", "-z")
	return err == nil && slices.Contains(lines, "branch "+ref), err
}

// isMerged reports whether a commit is in what stays when all attempts are removed.
func (repo *gitRepo) isMerged(ctx context.Context, commit string) (bool, error) {
	args := append([]string{"rev-list", "--max-count=1", commit, "--not"}, staying...)
	left, err := repo.shared().Line(ctx, args...)
	return err == nil && left == "", err
}

// deleteRef deletes a reference if it names a commit.
func (repo *gitRepo) deleteRef(ctx context.Context, ref, commit string) error {
	_, err := repo.shared().Run(ctx, "update-ref", "-d", ref, commit)
	return err
}

// maxGitFile is the maximum size of a small file of git that is read, in bytes.
const maxGitFile = 64 << 10
