package release

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/filelock"
)

// maxTries is the number of times that a merge begins again because the branch was moved meanwhile.
const maxTries = 20

// Merge describes a merge.
type Merge struct {
	Into   string // the branch, such as "main"
	Commit string // the commit to merge
	// Check is called with the commit that the branch would move to, unless that is Commit itself. Its tree is
	// another one than what was checked before. If Check returns an error, nothing is merged. It may
	// be called again when the branch was moved meanwhile. Other merges into the branch wait for it.
	Check func(ctx context.Context, commit string) error
}

// Merged says how a branch was moved.
type Merged struct {
	Commit string // that the branch was moved to
	Before string // that it was moved from; the same as Commit if the branch contained the commit already
}

// Merge merges a commit into a branch: it fast-forwards the branch, or makes a merge commit if others have
// moved the branch. If the branch is checked out, the files and the index of the worktree follow, and
// local changes to other files stay as they are.
//
// It waits for other merges into the branch until ctx is done. An error means that the commit is not
// merged, except if the files of a worktree could not follow a branch that was moved; the next Merge
// repeats that. Errors: *ConflictError, *DirtyError, *BusyError, ErrMoved, ErrOldGit, and that of Check,
// as it is.
func (r *Repo) Merge(ctx context.Context, m Merge) (Merged, error) {
	done, err := r.merge(ctx, m)
	if failed, ok := errors.AsType[*checkError](err); ok {
		return Merged{}, failed.err
	}
	if err != nil {
		return Merged{}, fmt.Errorf("merging %.12s into %s: %w", m.Commit, m.Into, err)
	}
	return done, nil
}

// checkError is an error of Check.
type checkError struct{ err error }

func (e *checkError) Error() string { return e.err.Error() }

func (r *Repo) merge(ctx context.Context, m Merge) (Merged, error) {
	ref, err := r.branch(ctx, m.Into)
	if err != nil {
		return Merged{}, err
	}
	commit, err := r.commit(ctx, m.Commit)
	if err != nil {
		return Merged{}, err
	}
	lock, err := r.lockBranch(ctx, ref)
	if err != nil {
		return Merged{}, err
	}
	defer lock.Close()
	if err := r.repairAll(ctx, ref); err != nil {
		return Merged{}, err
	}
	for range maxTries {
		done, err := r.try(ctx, lock, commit, m.Check)
		if !errors.Is(err, errMoved) {
			return done, err
		}
	}
	return Merged{}, ErrMoved
}

// try merges a commit, unless the branch is moved meanwhile; the error is errMoved then.
func (r *Repo) try(
	ctx context.Context, lock *refLock, commit string, check func(context.Context, string) error,
) (Merged, error) {
	ref := lock.ref
	before, err := r.tip(ctx, ref)
	if err != nil || before == "" {
		return Merged{}, errors.Join(err, errors.New("there is no such branch"))
	}
	if ok, err := r.contains(ctx, before, commit); err != nil || ok {
		return Merged{before, before}, err
	}
	result, err := r.combine(ctx, before, commit)
	if err != nil {
		return Merged{}, err
	}
	r.step("combined")
	if result != commit && check != nil {
		if err := check(ctx, result); err != nil {
			return Merged{}, &checkError{err}
		}
	}
	switch at, err := r.checkedOut(ref); {
	case err != nil:
		return Merged{}, err
	case len(at) > 1:
		return Merged{}, fmt.Errorf("%w more than once: in %s and %s", ErrCheckedOut, at[0].top, at[1].top)
	case len(at) == 1:
		return Merged{result, before}, r.follow(ctx, lock, at[0], intent{ref, before, result})
	}
	return Merged{result, before}, r.move(ctx, r.git(), lock, before, result, reason)
}

// reason is the message of merges in the reflog.
const reason = "coppice: merge"

// Repair finishes or takes back what killed processes have left in the worktrees of the repository. Merge
// does it, too. Worktrees in which another process is active are skipped.
func (r *Repo) Repair(ctx context.Context) error { return r.repairAll(ctx, "") }

// repairAll repairs all worktrees. The caller holds the lock of the branch ref, unless that is "". So what is
// active in the worktree of ref is only a git command that a killed process has left, and repairAll waits for it.
func (r *Repo) repairAll(ctx context.Context, ref string) error {
	all, err := r.places()
	if err != nil {
		return err
	}
	for _, p := range all {
		x := &index{place: p}
		left, err := x.left()
		if err != nil {
			return err
		}
		if left == nil {
			continue
		}
		if err := r.repair(ctx, x, left.Ref == ref); err != nil {
			return fmt.Errorf("repairing %s: %w", p.top, err)
		}
	}
	return nil
}

func (r *Repo) repair(ctx context.Context, x *index, wait bool) error {
	take := func() (*filelock.Lock, error) { return filelock.Try(x.flock(), filelock.Exclusive) }
	if wait {
		take = func() (*filelock.Lock, error) { return filelock.Wait(ctx, x.flock(), filelock.Exclusive) }
	}
	lock, err := take()
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	x.keep = lock
	left, err := x.left() // another process may have repaired it meanwhile
	if err != nil || left == nil {
		return err
	}
	return r.settle(ctx, x, *left)
}
