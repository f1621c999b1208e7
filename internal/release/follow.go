package release

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-dev/coppice/internal/filelock"
	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// follow moves a branch together with the worktree that has it checked out. The error is errMoved if others
// have moved the branch or the worktree meanwhile.
func (r *Repo) follow(ctx context.Context, branch *refLock, p place, i intent) error {
	if p.top == "" {
		return errors.New("the worktree of the repository is unknown; open the repository in it")
	}
	if _, err := os.Stat(p.top); err != nil {
		return fmt.Errorf("the worktree of the branch is missing; if it is gone, run git worktree prune: %w", err)
	}
	x := &index{place: p}
	lock, err := filelock.Wait(ctx, x.flock(), filelock.Exclusive)
	if err != nil {
		return err
	}
	defer lock.Close()
	x.keep = lock
	left, err := x.lock(ctx, i)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // what is begun is finished
	if left != nil {
		if err := r.settle(ctx, x, *left); err != nil {
			return err
		}
		return errMoved
	}
	r.step("locked")
	draft, err := r.prepare(ctx, x, i)
	if err != nil {
		return errors.Join(err, x.unlock())
	}
	r.step("prepared")
	err = r.write(ctx, branch, x, draft, i)
	if failed := r.settle(ctx, x, i); failed != nil {
		return fmt.Errorf("repairing %s, which the next merge repeats: %w", p.top, failed)
	}
	return err
}

// prepare checks that the files and the index can follow. It changes nothing.
func (r *Repo) prepare(ctx context.Context, x *index, i intent) (draft gitcmd.Runner, err error) {
	head, err := x.head()
	if err != nil {
		return draft, err
	}
	tip, err := r.tip(ctx, i.Ref)
	if err != nil {
		return draft, err
	}
	if head != i.Ref || tip != i.Old {
		return draft, errMoved
	}
	operation, err := x.operation()
	if err != nil {
		return draft, err
	}
	if operation != "" {
		return draft, &BusyError{x.top, operation}
	}
	changes, err := r.changes(ctx, i)
	if err != nil {
		return draft, err
	}
	if draft, err = x.draft(ctx); err != nil {
		return draft, err
	}
	unmerged, err := draft.Names(ctx, "diff-files", "-z", "--name-only", "--diff-filter=U", ignoreDirty)
	if err != nil {
		return draft, err
	}
	if len(unmerged) > 0 {
		return draft, &BusyError{x.top, "merge with conflicts"}
	}
	dirty, err := x.dirty(ctx, draft, i.Old, changes)
	if err != nil {
		return draft, err
	}
	if len(dirty) > 0 {
		files, more := few(dirty)
		return draft, &DirtyError{x.top, files, more, nil}
	}
	return draft, nil
}

// write writes the files and the new index, and then moves the branch. A person's git commit reads HEAD, the index, and
// only then locks the index. In this order it never sees the moved branch with the index from before, of which it would
// make a commit that drops the change.
func (r *Repo) write(ctx context.Context, branch *refLock, x *index, draft gitcmd.Runner, i intent) error {
	if _, err := draft.Run(ctx, "read-tree", "-m", "-u", "--no-recurse-submodules", i.Old, i.New); err != nil {
		if gitcmd.ExitCode(err) > 0 {
			err = &DirtyError{Worktree: x.top, Err: err}
		}
		return err
	}
	r.step("written")
	if err := x.install(); err != nil {
		return err
	}
	r.step("ready")
	if left, err := x.left(); err != nil || left == nil || *left != i {
		return errors.Join(err, errors.New("its lock of the index was removed"))
	}
	err := r.move(ctx, x.git(""), branch, i.Old, i.New, reason)
	r.step("moved")
	return err
}

// settle ends what was begun in a worktree: if its HEAD was moved with the branch, the new index stays. Otherwise the
// old one comes back, and the files become again what it says: the branch was not moved, or a person has made another
// one current, which git switch -c does without the index. It can be repeated.
func (r *Repo) settle(ctx context.Context, x *index, i intent) error {
	moved, installed := false, exists(x.path(beforeName))
	if installed {
		head, err := tip(ctx, x.git(""), "HEAD")
		if err == nil && head != "" {
			moved, err = r.contains(ctx, head, i.New)
		}
		if err != nil {
			return err
		}
	}
	if !moved {
		if installed {
			if err := x.revert(); err != nil {
				return err
			}
		}
		if err := r.restore(ctx, x, i); err != nil {
			return err
		}
	}
	r.step("settled")
	return x.unlock()
}

// restore makes the files that a merge has written what the index says again. Files with other content
// than the merge writes, or the beginning of it, are left alone: a person has changed them since.
func (r *Repo) restore(ctx context.Context, x *index, i intent) error {
	changes, err := r.changes(ctx, i)
	if err != nil {
		return err
	}
	draft, err := x.draft(ctx)
	if err != nil {
		return err
	}
	inIndex, err := draft.Names(ctx, "ls-files", "-z", "--cached")
	if err != nil {
		return err
	}
	changed, err := draft.Names(ctx, "diff-files", "-z", "--name-only", ignoreDirty)
	if err != nil {
		return err
	}
	f, err := openFiles(x.top, draft)
	if err != nil {
		return err
	}
	defer f.close()
	tracked, modified := set(inIndex), set(changed)
	for _, c := range changes {
		if !tracked[c.path] {
			if err := f.remove(ctx, c); err != nil {
				return err
			}
		}
	}
	var paths []string
	for _, c := range changes {
		if !tracked[c.path] || !modified[c.path] {
			continue
		}
		if ours, err := f.written(ctx, c); err != nil {
			return err
		} else if ours {
			paths = append(paths, c.path)
		}
	}
	return f.checkOut(ctx, paths)
}

func set(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, n := range names {
		all[n] = true
	}
	return all
}
