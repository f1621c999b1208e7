package release

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/private"
)

// place is a worktree of the repository.
type place struct {
	git string // its git directory, which has its HEAD and its index
	top string // its root; "" if unknown
}

// maxGitFile is the maximum size of a small file of git that is read, in bytes.
const maxGitFile = 64 << 10

// places returns the worktrees of the repository.
func (r *Repo) places() (all []place, err error) {
	if r.main.git != "" {
		all = append(all, r.main)
	}
	dir := filepath.Join(r.common, "worktrees")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		p := place{git: filepath.Join(dir, e.Name())}
		link, err := readLine(filepath.Join(p.git, "gitdir"))
		if err != nil {
			return nil, err
		}
		if link == "" { // it is being made or removed
			continue
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(p.git, link)
		}
		p.top = filepath.Dir(link)
		all = append(all, p)
	}
	return all, nil
}

// readLine reads a small file of one line. It is "" if there is none.
func readLine(name string) (string, error) {
	text, err := private.ReadFile(name, maxGitFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSuffix(string(text), "\n"), err
}

// head returns the reference of the branch that is checked out; "" if it is none.
func (p place) head() (string, error) {
	head, err := readLine(filepath.Join(p.git, "HEAD"))
	ref, ok := strings.CutPrefix(head, "ref: ")
	if !ok {
		return "", err
	}
	return strings.TrimSpace(ref), err
}

// operations are the files that git keeps in the git directory of a worktree during an operation.
var operations = []struct{ file, name string }{
	{"rebase-merge", "rebase"},
	{"rebase-apply", "rebase"},
	{"MERGE_HEAD", "merge"},
	{"CHERRY_PICK_HEAD", "cherry-pick"},
	{"REVERT_HEAD", "revert"},
	{"sequencer", "cherry-pick or revert"},
	{"BISECT_LOG", "bisect"},
}

// operation returns the name of an unfinished operation; "" if there is none.
func (p place) operation() (string, error) {
	for _, o := range operations {
		switch _, err := os.Lstat(filepath.Join(p.git, o.file)); {
		case err == nil:
			return o.name, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}

// detached returns the reference of the branch that an operation has taken from HEAD and returns to; "" if
// there is none.
func (p place) detached() (string, error) {
	for _, file := range []string{"rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"} {
		line, err := readLine(filepath.Join(p.git, file))
		if err != nil {
			return "", err
		}
		if line != "" {
			return heads + strings.TrimPrefix(line, heads), nil
		}
	}
	return "", nil
}

// checkedOut returns the worktrees that have a branch checked out. The error is a *BusyError if one of them
// rebases or bisects it, as HEAD does not name the branch then.
func (r *Repo) checkedOut(ref string) (at []place, err error) {
	all, err := r.places()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		head, err := p.head()
		if err != nil {
			return nil, err
		}
		if head == ref {
			at = append(at, p)
			continue
		}
		if left, err := p.detached(); err != nil {
			return nil, err
		} else if left == ref {
			name, err := p.operation()
			return nil, errors.Join(err, &BusyError{p.top, name})
		}
	}
	return at, nil
}
