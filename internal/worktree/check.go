package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

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
	names, err := r.names()
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	var all []Status
	for _, name := range names {
		rec, err := r.load(name)
		if err != nil {
			return nil, fmt.Errorf("listing worktrees: %w", err)
		}
		if rec == nil {
			continue // removed meanwhile
		}
		a := rec.attempt()
		used, err := r.looksUsed(name)
		if err != nil {
			return nil, fmt.Errorf("listing worktrees: %w", err)
		}
		all = append(all, Status{
			Attempt: a, Path: r.path(name), Branch: a.Branch(), Commit: rec.Commit, Ports: rec.Ports,
			Problem: string(r.inspect(ctx, rec)), InUse: used,
		})
	}
	return all, nil
}

// looksUsed reports whether a process uses the worktree of an attempt.
func (r *Repo) looksUsed(name string) (used bool, err error) {
	if _, err := os.Lstat(r.path(name) + lockSuffix); err == nil { // else nobody locks it
		l, err := tryLock(r.path(name)+lockSuffix, unix.LOCK_EX)
		if l == nil || err != nil {
			return err == nil, err
		}
		defer l.release()
	}
	used, err = r.inUse(name)
	return used || processIn(r.path(name)) != 0, err
}

// Check returns nil if the worktree of an attempt is as it was made: complete, known to git, with
// the branch of the attempt checked out, a readable index, and no lock. The error wraps ErrCorrupt
// and says what is wrong, or fs.ErrNotExist if there is no worktree.
func (r *Repo) Check(ctx context.Context, a Attempt) error {
	rec, err := r.load(a.name())
	if err == nil && (rec == nil || rec.Task != a.Task) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = r.inspect(ctx, rec).err()
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

// inspect looks for what is wrong with the worktree of a record. One that is ready or was added is
// complete for git.
func (r *Repo) inspect(ctx context.Context, rec *record) problem {
	a := rec.attempt()
	path := r.path(a.name())
	if rec.State != ready && rec.State != added {
		return "it was not completed: " + problem(rec.State)
	}
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return "its directory is missing"
	}
	admin, err := r.adminDir(path)
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
	g := git{dir: admin, work: path}
	switch branch, err := g.line(ctx, "symbolic-ref", "--quiet", "HEAD"); {
	case gitcmd.ExitCode(err) == 1:
		return "its HEAD is detached"
	case err != nil:
		return problem("its HEAD cannot be read: " + err.Error())
	case branch != heads+a.Branch():
		return problem("it has another branch checked out: " + plaintext.OneLine(branch, 200))
	}
	if _, ok := g.commit(ctx, "HEAD"); !ok {
		return "its branch has no commit"
	}
	if _, err := os.Lstat(filepath.Join(admin, "index")); err != nil {
		return "its index is missing"
	}
	if _, err := g.run(ctx, "ls-files", "--unmerged", "-z"); err != nil {
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
// are deleted. One whose set-up was not completed is left for Create. It returns what it did, and
// touches nothing that a process uses.
func (r *Repo) Repair(ctx context.Context) (done []string, err error) {
	names, err := r.names()
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
	l, err := r.lock(ctx, name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.unlock(name, l)) }()
	rec, err := r.load(name)
	if err != nil || rec == nil {
		return "", err
	}
	if used, err := r.inUse(name); used || err != nil {
		return "", err
	}
	if rec.State == adding || rec.State == removing {
		_, err := r.remove(ctx, rec, l)
		return "removed " + r.path(name) + ", which was not completed", err
	}
	return r.dropLocks(rec)
}

// dropLocks deletes lock files of git that belong to the worktree of a record alone, if no process
// works in the worktree or has them open.
func (r *Repo) dropLocks(rec *record) (done string, err error) {
	a := rec.attempt()
	path := r.path(a.name())
	admin, err := r.adminDir(path)
	if err != nil || admin == "" || processIn(path) != 0 {
		return "", err
	}
	stale := []string{filepath.Join(r.common, "refs", "heads", filepath.FromSlash(a.Branch())) + ".lock"}
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
