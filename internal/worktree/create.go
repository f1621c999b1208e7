package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
)

// undoTimeout bounds the removal of a worktree that could not be made.
const undoTimeout = time.Minute

// Create makes the worktree of an attempt, and its branch from the base. If both exist already with
// the same base, they are returned; what a crash has left half made is completed. The worktree is in
// use until its Release. Errors: ErrExists if the attempt has another base, or something else has
// its name; ErrCorrupt if the worktree that exists was damaged.
//
// A base is resolved when the worktree is made: a branch that moves later is still the same base.
func (r *Repo) Create(ctx context.Context, a Attempt) (*Worktree, error) {
	w, err := r.create(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("making the worktree of %s: %w", a, err)
	}
	return w, nil
}

func (r *Repo) create(ctx context.Context, a Attempt) (*Worktree, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	name := a.name()
	l, err := r.dir.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	rec, err := r.build(ctx, a, l)
	var lease *filelock.Lock
	if err == nil {
		lease, err = filelock.Wait(ctx, r.dir.path(name)+leaseSuffix, filelock.Shared)
	}
	if err := errors.Join(err, r.dir.unlock(name, l)); err != nil {
		return nil, err
	}
	return r.worktree(rec, lease), nil
}

func (r *Repo) worktree(rec *record, lease *filelock.Lock) *Worktree {
	a := rec.attempt()
	return &Worktree{a, r.dir.path(a.name()), rec.Commit, slices.Clone(rec.Ports), lease}
}

// same returns an error if a record is for another task or base than an attempt.
func (r *Repo) same(ctx context.Context, rec *record, a Attempt) error {
	if rec.Task != a.Task {
		return fmt.Errorf("the name %s of %s: %w", a.name(), rec.attempt(), ErrExists)
	}
	if rec.Base == a.Base {
		return nil
	}
	if commit, err := r.git.resolve(ctx, a.Base); err != nil || commit != rec.Commit {
		return errors.Join(err, fmt.Errorf("it has the base %q: %w", rec.Base, ErrExists))
	}
	return nil
}

// build makes the worktree of an attempt, or what is missing of it. The caller has locked it.
func (r *Repo) build(ctx context.Context, a Attempt, l *filelock.Lock) (*record, error) {
	rec, err := r.dir.load(a.name())
	if err == nil && rec != nil {
		err = r.same(ctx, rec, a)
	}
	if err != nil {
		return nil, err
	}
	path := r.dir.path(a.name())
	if rec != nil && rec.State == ready {
		return rec, r.git.inspect(ctx, rec, path).err()
	}
	if rec != nil && (rec.State != added || r.git.inspect(ctx, rec, path) != "") { // a crash has left part of it
		if _, err := r.remove(ctx, rec, l); err != nil {
			return nil, err
		}
		rec = nil
	}
	if rec == nil {
		if rec, err = r.begin(ctx, a); err != nil {
			return nil, err
		}
		if err := r.add(ctx, rec, l); err != nil {
			return nil, r.undo(ctx, rec, l, err)
		}
	}
	if err := r.equip(ctx, rec); err != nil {
		return nil, r.undo(ctx, rec, l, err)
	}
	return rec, nil
}

// begin writes the record of a new worktree.
func (r *Repo) begin(ctx context.Context, a Attempt) (*record, error) {
	name := a.name()
	if _, err := os.Lstat(r.dir.path(name)); err == nil {
		return nil, fmt.Errorf("%s, which is no worktree of an attempt: %w", r.dir.path(name), ErrExists)
	}
	if _, exists := r.git.shared().commit(ctx, heads+a.Branch()); exists {
		return nil, fmt.Errorf("the branch %s, which is of no attempt: %w; rename it, or delete it with "+
			"coppice gc once it is merged", a.Branch(), ErrExists)
	}
	commit, err := r.git.resolve(ctx, a.Base)
	if err != nil {
		return nil, err
	}
	rec := &record{
		Task: a.Task, Number: a.Number, Base: a.Base, Commit: commit, State: adding, Partial: true,
		Created: time.Now().UTC().Truncate(time.Second),
	}
	if err := r.dir.save(rec); err != nil {
		return nil, err
	}
	r.step("recorded")
	return rec, nil
}

// add adds the worktree and its branch, and checks the files out.
func (r *Repo) add(ctx context.Context, rec *record, l *filelock.Lock) error {
	a := rec.attempt()
	path := r.dir.path(a.name())
	if err := r.register(ctx, a, rec.Commit, l); err != nil {
		return err
	}
	r.step("registered")
	admin, err := r.git.adminDir(path)
	if err != nil || admin == "" {
		return errors.Join(err, errors.New("git does not list the new worktree"))
	}
	g := gitIn(admin, path).keeping(l)
	g.Network = true
	if _, err := g.Run(ctx, "reset", "--hard", "--quiet", "--no-recurse-submodules"); err != nil {
		return err
	}
	r.step("checked out")
	rec.State, rec.Partial = added, false
	if err := r.dir.save(rec); err != nil {
		return err
	}
	r.step("added")
	return nil
}

// register adds a worktree without files. One process at a time does that: git then reads its data of all
// worktrees, which fails while one of them is being made.
func (r *Repo) register(ctx context.Context, a Attempt, commit string, l *filelock.Lock) error {
	repo, err := r.dir.lockRepo(ctx)
	if err != nil {
		return err
	}
	err = r.git.addWorktree(ctx, r.dir.path(a.name()), a.Branch(), commit, l, repo)
	return errors.Join(err, repo.Release())
}

// equip copies the files of .worktreeinclude, chooses the ports and runs the set-up command.
func (r *Repo) equip(ctx context.Context, rec *record) error {
	path := r.dir.path(rec.attempt().name())
	if err := r.git.include(ctx, path, r.dir.root); err != nil {
		return err
	}
	r.step("included")
	if err := r.choosePorts(ctx, rec); err != nil {
		return err
	}
	r.step("ports")
	if len(r.options.SetUp) > 0 {
		if err := r.options.Runner.Run(ctx, *r.worktree(rec, nil), r.options.SetUp); err != nil {
			return fmt.Errorf("setting the worktree up: %w", err)
		}
	}
	r.step("set up")
	rec.State = ready
	if err := r.dir.save(rec); err != nil {
		return err
	}
	r.step("ready")
	return nil
}

// undo removes a worktree that could not be made, and returns the cause.
func (r *Repo) undo(ctx context.Context, rec *record, l *filelock.Lock, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if _, err := r.remove(ctx, rec, l); err != nil {
		return errors.Join(cause, fmt.Errorf("removing what was made: %w", err))
	}
	return cause
}
