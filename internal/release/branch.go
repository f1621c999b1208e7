package release

import (
	"context"
	"fmt"
)

// Branch makes a branch for a commit that Commit has made, or moves it there. A branch is moved only if the
// commit that it names has the trailer of the same task; otherwise the error is ErrNotOurs. If it
// is checked out, the error is ErrCheckedOut.
func (r *Repo) Branch(ctx context.Context, name, commit string) error {
	if err := r.setBranch(ctx, name, commit); err != nil {
		return fmt.Errorf("moving the branch %q: %w", name, err)
	}
	return nil
}

func (r *Repo) setBranch(ctx context.Context, name, commit string) error {
	ref, err := r.branch(ctx, name)
	if err != nil {
		return err
	}
	if commit, err = r.commit(ctx, commit); err != nil {
		return err
	}
	task, err := r.taskOf(ctx, commit)
	if err != nil {
		return err
	}
	if task == "" {
		return fmt.Errorf("commit %s has no trailer %s", commit, taskTrailer)
	}
	lock, err := r.lockBranch(ctx, ref)
	if err != nil {
		return err
	}
	defer lock.Close()
	old, err := r.tip(ctx, ref)
	if err != nil || old == commit {
		return err
	}
	if old != "" {
		theirs, err := r.taskOf(ctx, old)
		if err != nil {
			return err
		}
		if theirs != task {
			return ErrNotOurs
		}
	}
	at, err := r.checkedOut(ref)
	if err != nil {
		return err
	}
	if len(at) > 0 {
		return fmt.Errorf("%w in %s", ErrCheckedOut, at[0].top)
	}
	return r.move(ctx, r.git(), lock, old, commit, "coppice: attempt at "+task)
}
