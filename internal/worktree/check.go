package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
)

// Status describes the worktree of an attempt.
type Status struct {
	Attempt
	Path    string
	Branch  string
	Commit  string // that the branch began with
	Ports   []int
	Problem string // why the worktree is not as it was made; "" if it is
	InUse   bool   // a process has its lease, works in it, or is making or removing it
}

// List returns the worktrees of all attempts, in the order of their names.
func (r *Repo) List(ctx context.Context) ([]Status, error) {
	names, err := r.dir.names()
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	var all []Status
	for _, name := range names {
		rec, err := r.dir.load(name)
		if err != nil {
			return nil, fmt.Errorf("listing worktrees: %w", err)
		}
		if rec == nil {
			continue // removed meanwhile
		}
		a := rec.attempt()
		used, err := r.dir.looksUsed(name)
		if err != nil {
			return nil, fmt.Errorf("listing worktrees: %w", err)
		}
		all = append(all, Status{
			Attempt: a, Path: r.dir.path(name), Branch: a.Branch(), Commit: rec.Commit, Ports: rec.Ports,
			Problem: string(r.git.inspect(ctx, rec, r.dir.path(name))), InUse: used,
		})
	}
	return all, nil
}

// Check returns nil if the worktree of an attempt is as it was made: complete, known to git, with
// the branch of the attempt checked out, a readable index, and no lock. The error wraps ErrCorrupt
// and says what is wrong, or fs.ErrNotExist if there is no worktree.
func (r *Repo) Check(ctx context.Context, a Attempt) error {
	rec, err := r.dir.load(a.name())
	if err == nil && (rec == nil || rec.Task != a.Task) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = r.git.inspect(ctx, rec, r.dir.path(a.name())).err()
	}
	if err != nil {
		return fmt.Errorf("checking the worktree of %s: %w", a, err)
	}
	return nil
}

// problem says what is wrong with a worktree; "" if nothing is.
type problem string

func (p problem) err() error {
	if p == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrCorrupt, string(p))
}

// inspect returns the first problem of the worktree of a record, which is at path. The worktree of a record in
// the state added or ready is complete for git.
func (repo *gitRepo) inspect(ctx context.Context, rec *record, path string) problem {
	if rec.State != ready && rec.State != added {
		return "it was not completed: " + problem(rec.State)
	}
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return "its directory is missing"
	}
	admin, err := repo.adminDir(path)
	if err != nil || admin == "" {
		return "git does not list it"
	}
	link, err := private.ReadFile(filepath.Join(path, ".git"), maxGitFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "its file .git is missing"
	case err != nil:
		return "its file .git cannot be read"
	case strings.TrimSuffix(string(link), "\n") != "gitdir: "+admin:
		return "its file .git points elsewhere"
	}
	g := gitIn(admin, "") // not in the worktree, which a removal would then take to be in use
	switch branch, err := g.Line(ctx, "symbolic-ref", "--quiet", "HEAD"); {
	case gitcmd.ExitCode(err) == 1:
		return "its HEAD is detached"
	case err != nil:
		return problem("its HEAD cannot be read: " + err.Error())
	case branch != heads+rec.attempt().Branch():
		return problem("it has another branch checked out: " + plaintext.OneLine(branch, 200))
	}
	if _, ok := g.commit(ctx, "HEAD"); !ok {
		return "its branch has no commit"
	}
	if _, err := os.Lstat(filepath.Join(admin, "index")); err != nil {
		return "its index is missing"
	}
	if _, err := g.Run(ctx, "ls-files", "--unmerged", "-z"); err != nil {
		return problem("its index cannot be read: " + err.Error())
	}
	for name, what := range map[string]string{"index.lock": "its index is locked", "locked": "it is locked"} {
		if _, err := os.Lstat(filepath.Join(admin, name)); err == nil {
			return problem(what + ": " + filepath.Join(admin, name))
		}
	}
	return ""
}

// Repair continues after a crash: worktrees that were being made or removed are removed, with what
// would be lost parked, and lock files that dead git commands have left in the worktrees of attempts
// are deleted. A worktree whose set-up was not completed is left to Create. Repair returns what it did,
// and touches nothing that a process uses.
func (r *Repo) Repair(ctx context.Context) (done []string, err error) {
	names, err := r.dir.names()
	for _, name := range names {
		what, e := r.repair(ctx, name)
		if what != "" {
			done = append(done, what)
		}
		if e != nil && !errors.Is(e, ErrInUse) {
			err = errors.Join(err, fmt.Errorf("repairing the worktree %s: %w", name, e))
		}
	}
	return done, err
}

func (r *Repo) repair(ctx context.Context, name string) (done string, err error) {
	l, err := r.dir.lock(ctx, name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.dir.unlock(name, l)) }()
	rec, err := r.dir.load(name)
	if err != nil || rec == nil {
		return "", err
	}
	if used, err := r.dir.inUse(name); used || err != nil {
		return "", err
	}
	if rec.State == adding || rec.State == removing {
		_, err := r.remove(ctx, rec, l)
		return "removed " + r.dir.path(name) + ", which was not completed", err
	}
	return r.git.dropLocks(r.dir.path(name), rec.attempt().Branch())
}

// dropLocks deletes the lock files of git that belong only to the worktree at path or to its branch. It leaves
// them while a process works in the worktree, and those that a process has open.
func (repo *gitRepo) dropLocks(path, branch string) (done string, err error) {
	admin, err := repo.adminDir(path)
	if err != nil || admin == "" || processIn(path) != 0 {
		return "", err
	}
	stale := []string{filepath.Join(repo.common, "refs", "heads", filepath.FromSlash(branch)) + ".lock"}
	for _, name := range []string{"index.lock", "HEAD.lock"} {
		stale = append(stale, filepath.Join(admin, name))
	}
	for _, lock := range stale {
		if _, e := os.Lstat(lock); e != nil || isOpen(lock) {
			continue
		}
		if e := os.Remove(lock); e != nil {
			err = errors.Join(err, e)
			continue
		}
		done = "removed stale lock files of " + path
	}
	return done, err
}
