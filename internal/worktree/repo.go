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
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/private"
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
	// Dir is where the worktrees are; by default .coppice/worktrees in the work tree. A bare
	// repository has no default.
	Dir string
	// SetUp is a command that Runner runs in each new worktree; none by default.
	SetUp  []string
	Runner Runner
	// Ports are for the worktrees; none by default.
	Ports PortRange
}

// Repo makes and removes the worktrees of a repository. It has no state in memory, so several
// processes can have one at the same time.
type Repo struct {
	options Options
	common  string // the git directory that all worktrees share
	own     string // the git directory of the work tree, which may be a linked one
	top     string // the work tree; "" if the repository is bare
	dir     string // of the worktrees, absolute and without symbolic links
	step    func(name string)
}

// defaultDir is the directory of the worktrees below the work tree.
const defaultDir = ".coppice/worktrees"

// Open returns the Repo of the repository that a directory is in. It makes the directory of the
// worktrees, and has git ignore it. Errors: ErrNotRepo, ErrNoCommit.
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
		return git{env: []string{"PWD=" + dir}}.line(ctx, "-C", dir, "rev-parse", "--path-format=absolute", flag)
	}
	if r.common, err = discover("--git-common-dir"); gitcmd.ExitCode(err) == 128 {
		return nil, fmt.Errorf("%w: %w", ErrNotRepo, err)
	} else if err != nil {
		return nil, err
	}
	if r.own, err = discover("--git-dir"); err != nil {
		return nil, err
	}
	if r.top, err = discover("--show-toplevel"); err != nil {
		r.top = ""
	}
	if _, ok := r.git().commit(ctx, "HEAD"); !ok {
		some, err := r.git().line(ctx, "rev-list", "--all", "--max-count=1")
		if err != nil || some == "" {
			return nil, errors.Join(ErrNoCommit, err)
		}
	}
	switch {
	case o.Dir != "":
		r.dir, err = filepath.Abs(o.Dir)
	case r.top != "":
		r.dir = filepath.Join(r.top, defaultDir)
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

// makeDir makes the directory of the worktrees and checks that it is safe to use.
func (r *Repo) makeDir(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	if err := private.Dir(r.dir); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return err
	}
	r.dir = real
	inside, ok := below(r.top, r.dir)
	if !ok {
		return nil
	}
	g := r.workTree()
	tracked, err := g.names(ctx, "ls-files", "-z", "--", ":(top,literal)"+inside)
	if err != nil {
		return err
	}
	if len(tracked) > 0 {
		return fmt.Errorf("%s has files that git tracks; choose another directory for worktrees", r.dir)
	}
	if ignored, err := g.ignored(ctx, []string{inside + "/x"}); err != nil || len(ignored) > 0 {
		return err
	}
	return r.exclude(inside)
}

// exclude has git ignore a directory in the work tree.
func (r *Repo) exclude(inside string) error {
	name := filepath.Join(r.common, "info", "exclude")
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	escaped := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(filepath.ToSlash(inside))
	_, err = file.WriteString("\n/" + escaped + "/\n")
	return err
}

// below returns the path of something in a directory, relative to it.
func below(dir, path string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, dir != "" && err == nil && rel != "." && filepath.IsLocal(rel)
}

// Dir returns the directory of the worktrees.
func (r *Repo) Dir() string { return r.dir }

// git runs commands on what all worktrees share.
func (r *Repo) git() git { return git{dir: r.common} }

// workTree runs commands in the work tree of the repository.
func (r *Repo) workTree() git { return git{dir: r.own, work: r.top} }

// lockRepo makes this process the only one that changes the list of worktrees or ports.
func (r *Repo) lockRepo(ctx context.Context) (*fileLock, error) {
	return waitLock(ctx, filepath.Join(r.dir, repoLock), unix.LOCK_EX)
}

// adminDir returns the directory that git keeps of the worktree at a path. It is "" if git knows no
// worktree there.
func (r *Repo) adminDir(path string) (string, error) {
	all := filepath.Join(r.common, "worktrees")
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		admin := filepath.Join(all, e.Name())
		text, err := private.ReadFile(filepath.Join(admin, "gitdir"), maxGitFile)
		if err == nil && strings.TrimSuffix(string(text), "\n") == filepath.Join(path, ".git") {
			return admin, nil
		}
	}
	return "", nil
}

// maxGitFile is the maximum size of a small file of git that is read, in bytes.
const maxGitFile = 64 << 10
