// Package release commits the change of an attempt exactly as it was checked, and merges the commit into a
// branch without losing the change of another.
//
// Processes may merge at the same time, next to people who work in the repository, and may be killed at any
// moment. Merges into one branch run one after another. A branch that is checked out moves together with
// the files and the index of its worktree, in this order:
//
//  1. The index is locked with git's own index.lock. The lock says which merge it belongs to.
//  2. The files are written, and the new index next to the old one.
//  3. The branch is moved, if it is still where it was.
//  4. The new index replaces the old one, and the lock is removed.
//
// Until step 3, the commit is not merged. If a process is killed, the lock stays, so that git refuses to
// commit or to switch branches there. The next Merge or Repair finds the lock: it restores the files if
// the branch was not moved, and continues with step 4 if it was.
//
// Hooks of the repository never run, and neither do its merge drivers. The filters that its configuration
// names (clean and smudge) run for files of a worktree, as the files would be wrong without them.
package release

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Repo commits and merges in a repository. It has no state in memory, so several processes and goroutines
// can use one repository at the same time.
type Repo struct {
	common  string // the git directory that all worktrees share
	main    place  // the main worktree; without a git directory if the repository is bare
	objects string // the directory of the object database
	format  string // sha1 or sha256
	step    func(name string)
	stale   time.Duration // staleAfter, except in tests
}

// Open returns the Repo of the repository that a directory is in. The repository may be bare.
func Open(ctx context.Context, dir string) (*Repo, error) {
	r, err := find(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("opening the repository of %s: %w", dir, err)
	}
	return r, nil
}

func find(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	g := runner("")
	g.Env = append(g.Env, "PWD="+dir)
	ask := func(args ...string) (string, error) {
		args = append([]string{"-C", dir, "rev-parse", "--path-format=absolute"}, args...)
		return g.Line(ctx, args...)
	}
	r := &Repo{step: func(string) {}, stale: staleAfter}
	if r.common, err = ask("--git-common-dir"); err != nil {
		return nil, err
	}
	if r.objects, err = ask("--git-path", "objects"); err != nil {
		return nil, err
	}
	if r.format, err = ask("--show-object-format"); err != nil {
		return nil, err
	}
	own, err := ask("--git-dir")
	if err != nil {
		return nil, err
	}
	if storage, err := r.config(ctx, "extensions.refStorage"); err != nil || storage != "" && storage != "files" {
		return nil, errors.Join(err, fmt.Errorf("references are stored as %q, expected files", storage))
	}
	bare, err := r.config(ctx, "core.bare")
	if err != nil || bare == "true" {
		return r, err
	}
	r.main.git = r.common
	if own == r.common {
		r.main.top, err = ask("--show-toplevel")
		return r, err
	}
	switch top, err := r.config(ctx, "core.worktree"); {
	case err != nil:
		return nil, err
	case filepath.IsAbs(top):
		r.main.top = top
	case top != "":
		r.main.top = filepath.Join(r.common, top)
	case filepath.Base(r.common) == ".git":
		r.main.top = filepath.Dir(r.common)
	}
	return r, nil
}

// git runs commands on what all worktrees share.
func (r *Repo) git() gitcmd.Runner { return runner(r.common) }

// config returns a value of the configuration; "" if it has none.
func (r *Repo) config(ctx context.Context, name string) (string, error) {
	value, err := r.git().Line(ctx, "config", "--get", name)
	if gitcmd.ExitCode(err) == 1 {
		err = nil
	}
	return value, err
}

const heads = "refs/heads/"

// branch checks the name of a branch and returns its reference.
func (r *Repo) branch(ctx context.Context, name string) (string, error) {
	ref := heads + name
	if name == "" || name == "HEAD" || name[0] == '-' || len(name) > 1000 || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q is no name of a branch", plaintext.OneLine(name, 100))
	}
	if _, err := r.git().Run(ctx, "check-ref-format", ref); err != nil {
		return "", fmt.Errorf("%q is no name of a branch: %w", plaintext.OneLine(name, 100), err)
	}
	target, err := r.git().Line(ctx, "symbolic-ref", "--quiet", ref)
	if gitcmd.ExitCode(err) == 1 { // it is none
		return ref, nil
	}
	if err == nil {
		err = fmt.Errorf("the branch %s is a symbolic reference to %s; use that", name, target)
	}
	return "", err
}

// commit returns the commit that a revision names.
func (r *Repo) commit(ctx context.Context, revision string) (string, error) {
	id, err := r.git().Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%q is no commit of the repository: %w", plaintext.OneLine(revision, 100), err)
	}
	return id, nil
}

// contains reports whether a commit is tip or one of its ancestors.
func (r *Repo) contains(ctx context.Context, tip, commit string) (bool, error) {
	_, err := r.git().Run(ctx, "merge-base", "--is-ancestor", commit, tip)
	if gitcmd.ExitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// tip returns the commit of a reference; "" if there is none.
func (r *Repo) tip(ctx context.Context, ref string) (string, error) { return tip(ctx, r.git(), ref) }

func tip(ctx context.Context, g gitcmd.Runner, ref string) (string, error) {
	id, err := g.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if gitcmd.ExitCode(err) == 1 {
		err = nil
	}
	return id, err
}
