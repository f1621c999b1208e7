package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
)

// Removed describes the result of a removal.
type Removed struct {
	// Parked names the reference with what git would have lost; "" if there was nothing.
	Parked string
	// Kept names the branch of the attempt if it was not deleted because another worktree has it checked
	// out.
	Kept string
}

// Remove removes the worktree of an attempt, its branch and its ports. What git would lose is first
// kept below refs/coppice/parked/, as a commit whose parents are the commits that were in no other
// place, and whose tree has all files that were not ignored. If the worktree does not exist, that is no error.
//
// Errors: ErrInUse if a process uses the worktree; ErrNotKept if a repository in it has work that
// cannot be kept. Then the worktree stays.
func (r *Repo) Remove(ctx context.Context, a Attempt) (removed Removed, err error) {
	return r.removeUnless(ctx, a, nil)
}

// removeUnless removes like Remove, but returns ErrInUse if isLive reports that the attempt has not ended. It
// calls isLive, which may be nil, while it holds the lock, so that no process can begin to use the worktree.
func (r *Repo) removeUnless(ctx context.Context, a Attempt, isLive func(Attempt) bool) (removed Removed, err error) {
	name := a.name()
	defer func() {
		if err != nil {
			err = fmt.Errorf("removing the worktree of %s: %w", a, err)
		}
	}()
	if err := a.check(); err != nil {
		return removed, err
	}
	l, err := r.dir.lock(ctx, name)
	if err != nil {
		return removed, err
	}
	defer func() { err = errors.Join(err, r.dir.unlock(name, l)) }()
	rec, err := r.dir.load(name)
	switch {
	case err != nil || rec == nil:
		return removed, err
	case rec.Task != a.Task:
		return removed, fmt.Errorf("the name %s is that of %s", name, rec.attempt())
	}
	if used, err := r.dir.inUse(name); err != nil || used {
		return removed, errors.Join(err, fmt.Errorf("%w: a process has its lease", ErrInUse))
	}
	if isLive != nil && isLive(rec.attempt()) {
		return removed, fmt.Errorf("%w: the attempt has not ended", ErrInUse)
	}
	return r.remove(ctx, rec, l)
}

// verifyTries bounds how often a worktree that changes meanwhile is parked.
const verifyTries = 3

// remove removes the worktree of a record. The caller holds its lock, and no process has its lease.
func (r *Repo) remove(ctx context.Context, rec *record, l *filelock.Lock) (removed Removed, err error) {
	name := rec.attempt().name()
	path := r.dir.path(name)
	if err := r.dir.resumeVerify(name); err != nil {
		return removed, err
	}
	admin, err := r.git.adminDir(path)
	if err != nil {
		return removed, err
	}
	if removed.Parked, err = r.clear(ctx, rec, admin); err != nil {
		return removed, err
	}
	r.step("cleared")
	// The directory is gone, but a process could have moved HEAD or the branch until then.
	if ref, err := r.park(ctx, rec, admin); err != nil {
		return removed, err
	} else if ref != "" {
		removed.Parked = ref
	}
	if admin != "" {
		if err := r.unregister(ctx, path, l); err != nil {
			return removed, err
		}
	}
	r.step("unregistered")
	if removed.Kept, err = r.deleteBranch(ctx, rec); err != nil {
		return removed, err
	}
	r.step("branch deleted")
	if err := r.dir.forget(name); err != nil {
		return removed, err
	}
	r.step("forgotten")
	return removed, nil
}

// endTime bounds the wait for processes that work in a worktree that is removed: what an attempt has started may end
// some moments after it.
const endTime = time.Second

// awaitProcesses waits until no process works in a directory, at most for endTime, and returns one that still does; 0
// if there is none.
func awaitProcesses(ctx context.Context, path string) (pid int) {
	late := time.After(endTime)
	for {
		if pid = processIn(path); pid == 0 {
			return 0
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			return pid
		case <-ctx.Done():
			return pid
		}
	}
}

// clear parks what would be lost with a worktree and deletes its directory. It returns the reference.
func (r *Repo) clear(ctx context.Context, rec *record, admin string) (ref string, err error) {
	name := rec.attempt().name()
	path := r.dir.path(name)
	for range verifyTries {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return ref, r.dir.deleteDir(name + removingSuffix)
		}
		if err != nil || !info.IsDir() {
			return "", errors.Join(err, fmt.Errorf("%s is not a directory", path))
		}
		if pid := awaitProcesses(ctx, path); pid != 0 {
			return "", fmt.Errorf("%w: process %d works in it", ErrInUse, pid)
		}
		if err := r.dir.deleteDir(name + removingSuffix); err != nil {
			return "", err
		}
		if err := openUp(path); err != nil {
			return "", err
		}
		nested, err := r.git.refuseNested(ctx, admin, path)
		if err != nil {
			return "", err
		}
		before, err := r.git.snapshot(ctx, rec, admin, path, path+indexSuffix)
		if err != nil {
			return "", err
		}
		if ref, err = r.parked.keep(ctx, rec, before, r.step); err != nil {
			return "", err
		}
		r.step("parked")
		rec.State = removing
		if err := r.dir.save(rec); err != nil {
			return "", err
		}
		r.step("marked")
		// From here on no process finds the worktree by its path. What was written until then is found now. A
		// submodule has its path written in it, so git cannot read it elsewhere.
		aside := path + verifySuffix
		if nested {
			aside = path
		}
		if err := rename(path, aside); err != nil {
			return "", err
		}
		r.step("moved")
		after, err := r.git.snapshot(ctx, rec, admin, aside, path+indexSuffix)
		if err == nil && before.same(after) {
			if err := os.Rename(aside, path+removingSuffix); err != nil {
				return "", err
			}
			r.step("verified")
			return ref, r.dir.deleteDir(name + removingSuffix)
		}
		if err := errors.Join(err, rename(aside, path)); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: the worktree changes all the time", ErrInUse)
}

func (s snapshot) same(other snapshot) bool {
	return s.head == other.head && s.tree == other.tree && s.index == other.index && slices.Equal(s.tips, other.tips)
}

// park keeps what would be lost with a worktree whose directory is gone.
func (r *Repo) park(ctx context.Context, rec *record, admin string) (ref string, err error) {
	s, err := r.git.snapshot(ctx, rec, admin, "", "")
	if err != nil {
		return "", err
	}
	// What is parked already need not be parked again.
	if s.tips, err = r.parked.notParked(ctx, rec, s.tips); err != nil {
		return "", err
	}
	return r.parked.keep(ctx, rec, s, r.step)
}

// unregister removes a worktree whose directory is gone from the list of git.
func (r *Repo) unregister(ctx context.Context, path string, l *filelock.Lock) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: %s exists again", ErrInUse, path)
	}
	repo, err := r.dir.lockRepo(ctx)
	if err != nil {
		return err
	}
	err = r.git.removeWorktree(ctx, path, l, repo)
	return errors.Join(err, repo.Release())
}

// deleteBranch deletes the branch of an attempt, whose commits are parked or in other places. If another
// worktree has the branch checked out, it leaves the branch and returns its name.
func (r *Repo) deleteBranch(ctx context.Context, rec *record) (kept string, err error) {
	branch := rec.attempt().Branch()
	tip, exists := r.git.shared().commit(ctx, heads+branch)
	if !exists {
		return "", nil
	}
	if used, err := r.git.isCheckedOut(ctx, heads+branch); err != nil {
		return "", err
	} else if used {
		return branch, nil
	}
	lost, err := r.git.unmerged(ctx, rec, []string{tip})
	if err == nil {
		lost, err = r.parked.notParked(ctx, rec, lost)
	}
	if err != nil {
		return "", err
	}
	if len(lost) > 0 {
		return "", fmt.Errorf("%w: the branch %s has moved", ErrInUse, branch)
	}
	if err := r.git.deleteRef(ctx, heads+branch, tip); err != nil {
		return "", err
	}
	// There is such a section if the branch was pushed.
	r.git.shared().Run(ctx, "config", "--local", "--remove-section", "branch."+branch)
	return "", nil
}
