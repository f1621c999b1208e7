// Package worktree gives each attempt of a task a git worktree and a branch of its own, and removes
// them without losing work.
//
// What git would lose with a worktree is kept below refs/coppice/parked/ before it is deleted:
// changes that are not committed, files that are neither tracked nor ignored, and commits that are
// in no branch, remote-tracking branch or tag of the user. Ignored files, and commits that only a
// reflog names, are not kept. A worktree that cannot be kept is not removed.
//
// Hooks of the repository never run. The filters that its configuration names (clean and smudge, as
// those of git-lfs) run when files are checked out and when they are kept, as the files would be
// wrong without them.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// Errors of this package, to compare with errors.Is.
var (
	// ErrNotRepo says that a directory is not in a git repository.
	ErrNotRepo = errors.New("not a git repository")
	// ErrNoCommit says that a repository has no commit yet, so there is nothing to start from.
	ErrNoCommit = errors.New("the repository has no commit")
	// ErrExists says that what an attempt needs exists and belongs to something else.
	ErrExists = errors.New("exists already")
	// ErrInUse says that a process uses a worktree.
	ErrInUse = errors.New("in use")
	// ErrCorrupt says that a worktree is not as it was made.
	ErrCorrupt = errors.New("corrupt worktree")
	// ErrNotKept says that a worktree has work that cannot be kept elsewhere.
	ErrNotKept = errors.New("work would be lost")
)

// Runner runs the set-up command of a worktree to its end.
type Runner interface {
	// Run runs argv in w.Path. After a crash it is called again for the same worktree.
	Run(ctx context.Context, w Worktree, argv []string) error
}

// PortRange is a range of port numbers.
type PortRange struct {
	First, Last int // inclusive
	Each        int // how many each worktree gets
}

// Options configure a Repo.
type Options struct {
	// Dir is the directory of the worktrees; by default .coppice/worktrees in the work tree. A bare
	// repository has no default.
	Dir string
	// SetUp is a command that Runner runs in each new worktree; none by default.
	SetUp  []string
	Runner Runner
	// Ports are for the worktrees; none by default.
	Ports PortRange
}

// Repo makes and removes the worktrees of a repository. It owns the order of the steps, which is such that
// a crash between any two can be repaired, and takes the locks for them. It has no state in memory, so
// several processes can have one at the same time.
type Repo struct {
	options Options
	dir     directory
	git     gitRepo
	parked  parkedWork
	step    func(name string) // called after each step, for tests
}

// defaultDir is the directory of the worktrees below the work tree.
const defaultDir = ".coppice/worktrees"

// Open returns the Repo of the repository that a directory is in. It makes the directory of the
// worktrees, and makes git ignore it. Errors: ErrNotRepo, ErrNoCommit.
func Open(ctx context.Context, dir string, o Options) (*Repo, error) {
	r, err := find(ctx, dir, o)
	if err == nil {
		err = r.makeDir(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the repository of %s: %w", dir, err)
	}
	return r, nil
}

// find returns the Repo of a directory, and changes nothing.
func find(ctx context.Context, dir string, o Options) (*Repo, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	r := &Repo{options: o, step: func(string) {}}
	discover := func(flag string) (string, error) {
		g := gitIn("", "")
		g.Env = []string{"PWD=" + dir}
		return g.Line(ctx, "-C", dir, "rev-parse", "--path-format=absolute", flag)
	}
	if r.git.common, err = discover("--git-common-dir"); gitcmd.ExitCode(err) == 128 {
		return nil, fmt.Errorf("%w: %w", ErrNotRepo, err)
	} else if err != nil {
		return nil, err
	}
	r.parked.git = r.git.shared()
	if r.git.own, err = discover("--git-dir"); err != nil {
		return nil, err
	}
	if r.git.top, err = discover("--show-toplevel"); err != nil {
		r.git.top = ""
	}
	if _, ok := r.git.shared().commit(ctx, "HEAD"); !ok {
		some, err := r.git.shared().Line(ctx, "rev-list", "--all", "--max-count=1")
		if err != nil || some == "" {
			return nil, errors.Join(ErrNoCommit, err)
		}
	}
	switch {
	case o.Dir != "":
		r.dir.root, err = filepath.Abs(o.Dir)
	case r.git.top != "":
		r.dir.root = filepath.Join(r.git.top, defaultDir)
	default:
		err = errors.New("a bare repository needs a directory for its worktrees")
	}
	return r, err
}

func (o Options) check() error {
	p := o.Ports
	switch {
	case p.Each < 0 || p.Each > 0 && (p.First < 1 || p.Last > 65535 || p.Last-p.First+1 < p.Each):
		return fmt.Errorf("the ports %d to %d have no room for %d", p.First, p.Last, p.Each)
	case len(o.SetUp) > 0 && o.Runner == nil:
		return errors.New("the set-up command has no Runner")
	}
	return nil
}

// makeDir makes the directory of the worktrees and makes git ignore it.
func (r *Repo) makeDir(ctx context.Context) error {
	if err := r.dir.makeRoot(); err != nil {
		return err
	}
	return r.git.ignore(ctx, r.dir.root)
}

// below returns the path of something in a directory, relative to the directory, and false if it is elsewhere.
func below(dir, path string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, dir != "" && err == nil && rel != "." && filepath.IsLocal(rel)
}

// Dir returns the directory of the worktrees.
func (r *Repo) Dir() string { return r.dir.root }
