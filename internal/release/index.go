package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/filelock"
	gitcmd "github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/private"
)

// intent is a move of the branch of a worktree, from Old to New.
type intent struct {
	Ref string `json:"ref"`
	Old string `json:"old"`
	New string `json:"new"`
}

// index is the index of a worktree with its lock.
type index struct {
	place
	keep      *filelock.Lock // the lock of the worktree
	installed os.FileInfo    // the new index; nil if it was made by a process that was killed, or was not
}

// Files in the git directory of the worktree.
const (
	indexName  = "index"
	lockName   = "index.lock"            // git's own
	draftName  = "coppice-release.draft" // a new index that is being made, or a new lock
	beforeName = "coppice-release.index" // the index before the merge, while the branch is moved
	flockName  = "coppice-release.lock"  // taken by the process that is active in the worktree
)

func (x *index) path(name string) string { return filepath.Join(x.place.git, name) }

func (x *index) flock() string { return x.path(flockName) }

// git runs commands in the worktree. Those that write the index use one of its copies.
func (x *index) git(name string) gitcmd.Runner {
	g := runner(x.place.git)
	g.Work = x.top
	if x.keep != nil {
		g.Files = []*os.File{x.keep.File()} // a killed process leaves it the lock
	}
	if name != "" {
		g.Index = x.path(name)
	}
	return g
}

// magic begins a lock of this package. The index of git begins with other bytes.
const magic = "coppice is merging in this worktree; if it was killed, its next merge here repairs the rest.\n"

// lock takes git's lock of the index. It returns the intent of a killed process if that has it.
func (x *index) lock(ctx context.Context, i intent) (left *intent, err error) {
	if left, err := x.left(); left != nil || err != nil {
		return left, err
	}
	// Copies without a lock of this package are from one that a person has removed.
	if err := errors.Join(x.removeDrafts(), removeIfExists(x.path(beforeName))); err != nil {
		return nil, err
	}
	text, err := json.Marshal(i)
	if err == nil {
		err = os.WriteFile(x.path(draftName), append([]byte(magic), text...), 0o644)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeIfExists(x.path(draftName))) }()
	err = gitcmd.RetryLocked(ctx, func() (locked bool, err error) {
		err = os.Link(x.path(draftName), x.path(lockName)) // the lock exists with its text, or not at all
		if !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		if left, err = x.left(); left != nil || err != nil {
			return false, err
		}
		return true, fmt.Errorf("%s exists since %v: another git command is active, or was killed", x.path(lockName),
			gitcmd.LockTimeout)
	})
	return left, err
}

// left returns the intent of the process of this package that has locked the index; nil if there is none.
func (x *index) left() (*intent, error) {
	file, err := private.OpenFile(x.path(lockName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text := make([]byte, maxGitFile)
	n, _ := file.Read(text) // an empty file is of git
	rest, ok := bytes.CutPrefix(text[:n], []byte(magic))
	if !ok {
		return nil, nil
	}
	var i intent
	if err := json.Unmarshal(rest, &i); err != nil {
		return nil, fmt.Errorf("reading %s: %w", x.path(lockName), err)
	}
	if !isID(i.Old) || !isID(i.New) || !strings.HasPrefix(i.Ref, heads) {
		return nil, fmt.Errorf("reading %s: it names no commits and branch", x.path(lockName))
	}
	return &i, nil
}

// isID reports whether a text is the full name of an object.
func isID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// unlock removes the copies of the index, and the lock if it is one of this package.
func (x *index) unlock() error {
	err := errors.Join(x.removeDrafts(), removeIfExists(x.path(beforeName)))
	if left, e := x.left(); err != nil || e != nil || left == nil {
		return errors.Join(err, e)
	}
	return os.Remove(x.path(lockName))
}

func (x *index) removeDrafts() error {
	return errors.Join(removeIfExists(x.path(draftName)), removeIfExists(x.path(draftName+".lock")))
}

// install replaces the index by its draft, and keeps the one before.
func (x *index) install() (err error) {
	if x.installed, err = os.Stat(x.path(draftName)); err != nil {
		return err
	}
	if err := os.Link(x.path(indexName), x.path(beforeName)); err != nil {
		return err
	}
	return os.Rename(x.path(draftName), x.path(indexName))
}

// revert brings back the index from before install. If a person has removed the lock and written another index since,
// that stays.
func (x *index) revert() error {
	if now, err := os.Stat(x.path(indexName)); err != nil || x.installed != nil && !os.SameFile(now, x.installed) {
		return err
	}
	return os.Rename(x.path(beforeName), x.path(indexName))
}

func removeIfExists(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// draft copies the index, with its time: git compares that with the times of files to find those that
// were changed in the moment in which the index was written. Files in the copy that have only other
// times than the index says are no longer taken for changed.
func (x *index) draft(ctx context.Context) (gitcmd.Runner, error) {
	if err := x.removeDrafts(); err != nil {
		return gitcmd.Runner{}, err
	}
	from := x.path(indexName)
	info, err := os.Stat(from)
	if err != nil {
		return gitcmd.Runner{}, err
	}
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(x.path(draftName), text, info.Mode().Perm())
	}
	if err == nil {
		err = os.Chtimes(x.path(draftName), info.ModTime(), info.ModTime())
	}
	if err != nil {
		return gitcmd.Runner{}, err
	}
	g := x.git(draftName)
	_, err = g.Run(ctx, "update-index", "-q", "--refresh", "--unmerged")
	if gitcmd.ExitCode(err) == 1 { // some files are changed
		err = nil
	}
	return g, err
}
