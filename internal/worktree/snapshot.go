package worktree

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/private"
)

// snapshot describes the work that git would lose with a worktree.
type snapshot struct {
	head  string   // the commit that is checked out
	tree  string   // of all files that are not ignored; that of head if there is no directory
	index string   // the tree of the index, if it differs from head and tree
	tips  []string // commits that are in nothing that stays
	dirty bool     // tree or index differ from head
}

// isEmpty reports whether nothing would be lost.
func (s snapshot) isEmpty() bool { return !s.dirty && len(s.tips) == 0 }

// snapshot reads the state of the worktree of a record. work is its directory; "" if it is gone. Temporary files
// are in the directory scratch, which snapshot makes and deletes. It changes nothing in the worktree, except that
// it makes unreadable files readable.
func (repo *gitRepo) snapshot(ctx context.Context, rec *record, admin, work, scratch string) (snapshot, error) {
	admin, g := repo.gitOf(ctx, admin, work)
	var s snapshot
	tips, err := repo.tips(ctx, rec, admin)
	if err != nil {
		return s, err
	}
	s.head = rec.Commit
	if len(tips) > 0 {
		s.head = tips[0]
	}
	if s.tips, err = repo.unmerged(ctx, rec, tips); err != nil {
		return s, err
	}
	headTree, err := repo.shared().Line(ctx, "rev-parse", "--verify", "--quiet", s.head+"^{tree}")
	if err != nil {
		return s, err
	}
	s.tree = headTree
	if work == "" {
		return s, nil
	}
	if err := openUp(work); err != nil { // git add passes over directories that it cannot read
		return s, err
	}
	if s.tree, s.index, err = trees(ctx, g, admin, s.head, scratch, rec.Partial); err != nil {
		return s, err
	}
	if s.index == headTree || s.index == s.tree {
		s.index = ""
	}
	s.dirty = s.tree != headTree || s.index != ""
	return s, nil
}

// gitOf returns git for the directory of a worktree. If git cannot read the git directory of the worktree,
// the common one takes its place, and usable is "".
func (repo *gitRepo) gitOf(ctx context.Context, admin, work string) (usable string, g git) {
	if admin != "" {
		g = gitIn(admin, work)
		if _, err := g.Run(ctx, "rev-parse", "--git-dir"); err == nil {
			return admin, g
		}
	}
	return "", gitIn(repo.common, work)
}

// headFiles are the files in the git directory of a worktree that name commits of an incomplete operation.
var headFiles = []string{
	"MERGE_HEAD", "MERGE_AUTOSTASH", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge/autostash",
	"rebase-merge/orig-head", "rebase-apply/autostash", "rebase-apply/orig-head",
}

// maxTips bounds how many names of commits are read from the git directory of a worktree.
const maxTips = 100

// tips returns the commits that a worktree and the branch of its attempt name; first the one that is
// checked out. It returns none if neither exists.
func (repo *gitRepo) tips(ctx context.Context, rec *record, admin string) (tips []string, err error) {
	var names []string
	if admin != "" {
		names = append(names, "HEAD")
	}
	names = append(names, heads+rec.attempt().Branch())
	g := repo.shared()
	if admin != "" {
		g.Dir = admin
		for _, file := range headFiles {
			text, err := private.ReadFile(filepath.Join(admin, filepath.FromSlash(file)), maxGitFile)
			if err == nil {
				names = append(names, strings.Fields(string(text))...)
			}
		}
		refs, err := g.Run(ctx, "for-each-ref", "--format=%(objectname)", "refs/worktree", "refs/bisect",
			"refs/rewritten")
		if err != nil {
			return nil, err
		}
		names = append(names, strings.Fields(refs)...)
	}
	for _, name := range names[:min(len(names), maxTips)] {
		if commit, ok := g.commit(ctx, name); ok {
			tips = append(tips, commit)
		}
	}
	return tips, nil
}

// unmerged returns those commits that are neither in the base of an attempt nor in what stays when all
// attempts are removed: branches of the user, remote-tracking branches and tags. Commits that are in
// others of them are left out.
func (repo *gitRepo) unmerged(ctx context.Context, rec *record, tips []string) (all []string, err error) {
	for _, tip := range tips {
		args := append([]string{"rev-list", "--max-count=1", tip, "--not", rec.Commit}, staying...)
		out, err := repo.shared().Line(ctx, args...)
		if err != nil {
			return nil, err
		}
		if out != "" {
			all = append(all, tip)
		}
	}
	if len(all) < 2 {
		return all, nil
	}
	out, err := repo.shared().Run(ctx, append([]string{"merge-base", "--independent"}, all...)...)
	return strings.Fields(out), err
}

// staying names the references that stay when all attempts are removed, for rev-list.
var staying = []string{"--exclude=" + branches + "*", "--branches", "--remotes", "--tags"}

// trees returns the tree of all files of a worktree that are not ignored, and the tree of its index, ""
// if that has none. They are made in a temporary index in dir. partial is as for addAll.
func trees(ctx context.Context, g git, admin, head, dir string, partial bool) (files, index string, err error) {
	if err := os.RemoveAll(dir); err != nil { // of a killed process
		return "", "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g.Index = filepath.Join(dir, "index")
	if admin != "" && copyIndex(g.Index, filepath.Join(admin, "index")) == nil {
		if index, err = g.Line(ctx, "write-tree"); err != nil {
			index = "" // it has conflicts, or is damaged
		}
		if err := g.showHidden(ctx); err == nil {
			if files, err = g.addAll(ctx, partial); err == nil {
				return files, index, nil
			}
		}
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return "", "", err
		}
	}
	if _, err := g.Run(ctx, "read-tree", head); err != nil {
		return "", "", err
	}
	files, err = g.addAll(ctx, partial)
	return files, index, err
}

// addAll adds all files that are not ignored to the index and returns its tree. In a partial worktree, files
// that are missing were not checked out yet, and are not taken for deleted.
func (g git) addAll(ctx context.Context, partial bool) (tree string, err error) {
	all := "--all"
	if partial {
		all = "--no-all"
	}
	if _, err := g.Run(ctx, "add", all, "--sparse", "."); err != nil {
		return "", err
	}
	return g.Line(ctx, "write-tree")
}

// showHidden makes git examine the files that its index marks as unchanged or skipped. Files that a sparse
// checkout has left out stay marked, as they do not exist.
func (g git) showHidden(ctx context.Context) error {
	entries, err := g.Names(ctx, "ls-files", "-z", "-v")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(g.Work)
	if err != nil {
		return err
	}
	defer root.Close()
	var unchanged, skipped strings.Builder
	for _, e := range entries {
		if len(e) < 3 {
			continue
		}
		tag, name := e[0], e[2:]
		if 'a' <= tag && tag <= 'z' {
			unchanged.WriteString(name + "\x00")
		}
		if tag == 'S' || tag == 's' {
			if _, err := root.Lstat(name); err == nil {
				skipped.WriteString(name + "\x00")
			}
		}
	}
	for flag, list := range map[string]string{
		"--no-assume-unchanged": unchanged.String(), "--no-skip-worktree": skipped.String(),
	} {
		if list == "" {
			continue
		}
		if _, err := g.RunWith(ctx, list, "update-index", flag, "-z", "--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// copyIndex copies an index file with its time, by which git knows which files it must read.
func copyIndex(to, from string) error {
	source, err := private.OpenFile(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := private.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}
