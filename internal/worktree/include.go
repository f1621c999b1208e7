package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/private"
)

// includeFile names, in the syntax of gitignore, the ignored files that each worktree gets a copy of.
const includeFile = ".worktreeinclude"

// Bounds of what is copied into a worktree.
const (
	maxIncluded      = 10_000    // files
	maxIncludedBytes = 256 << 20 // of all files
)

// includeTemporary names the file that is being copied. A crash can leave it.
const includeTemporary = ".coppice-include"

// Include copies the files of the work tree that a directory is in into another directory, as they are copied into each
// new worktree: those that git ignores and .worktreeinclude names. Errors: ErrNotRepo, ErrNoCommit.
func Include(ctx context.Context, dir, to string) error {
	r, err := find(ctx, dir, Options{})
	if err == nil {
		err = r.git.include(ctx, to, r.dir.root)
	}
	if err != nil {
		return fmt.Errorf("copying what %s of %s names: %w", includeFile, dir, err)
	}
	return nil
}

// include copies the files of the work tree that git ignores and .worktreeinclude names into a worktree. Files
// that the worktree has stay as they are. Nothing is copied from except, the directory of the worktrees.
func (repo *gitRepo) include(ctx context.Context, to, except string) error {
	if repo.top == "" {
		return nil
	}
	names, err := repo.included(ctx, except)
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > maxIncluded {
		return fmt.Errorf("%s names %d files, the limit is %d", includeFile, len(names), maxIncluded)
	}
	source, err := os.OpenRoot(repo.top)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	room := int64(maxIncludedBytes)
	for _, name := range names {
		size, err := copyInto(target, source, name, room)
		if err != nil {
			return fmt.Errorf("copying %q, which %s names: %w", name, includeFile, err)
		}
		room -= size
	}
	return nil
}

// included returns the files to copy, none of which is in except.
func (repo *gitRepo) included(ctx context.Context, except string) (names []string, err error) {
	patterns := filepath.Join(repo.top, includeFile)
	if info, err := os.Lstat(patterns); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", patterns))
	}
	g := repo.workTree()
	matching, err := g.Names(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-from="+patterns)
	if err != nil {
		return nil, err
	}
	own, _ := below(repo.top, except)
	var candidates []string
	for _, name := range matching {
		ours := strings.HasPrefix(name, path.Dir(defaultDir)+"/") ||
			own != "" && strings.HasPrefix(name, filepath.ToSlash(own)+"/")
		if !ours && !strings.HasSuffix(name, "/") && filepath.IsLocal(name) { // a nested repository ends with a slash
			candidates = append(candidates, name)
		}
	}
	return g.ignored(ctx, candidates)
}

// copyInto copies a file or a link from one directory to another, and returns its size. Links that
// lead out of the source, and what is neither a file nor a link, are left out.
func copyInto(target, source *os.Root, name string, room int64) (size int64, err error) {
	if _, err := target.Lstat(name); err == nil {
		return 0, nil
	}
	info, err := source.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // removed meanwhile
	}
	if err != nil {
		return 0, err
	}
	isLink := info.Mode()&fs.ModeSymlink != 0
	if !isLink && !info.Mode().IsRegular() {
		return 0, nil
	}
	if info.Size() > room {
		return 0, fmt.Errorf("all files have more than %d bytes", maxIncludedBytes)
	}
	if dir := path.Dir(name); dir != "." {
		if err := target.MkdirAll(dir, 0o777); err != nil {
			return 0, err
		}
	}
	if isLink {
		link, err := source.Readlink(name)
		if _, e := source.Stat(name); err != nil || e != nil || filepath.IsAbs(link) {
			return 0, err
		}
		return 0, target.Symlink(link, name)
	}
	from, err := source.OpenFile(name, os.O_RDONLY|private.OpenFlags, 0)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	if err := target.Remove(includeTemporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	to, err := target.OpenFile(includeTemporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(to, io.LimitReader(from, room+1))
	if err = errors.Join(err, to.Close()); err == nil && size > room {
		err = fmt.Errorf("all files have more than %d bytes", maxIncludedBytes)
	}
	if err == nil {
		err = target.Rename(includeTemporary, name)
	}
	return size, errors.Join(err, ignoreMissing(target.Remove(includeTemporary)))
}
