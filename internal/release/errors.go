package release

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Errors of this package, to compare with errors.Is.
var (
	// ErrEmpty says that a change has nothing to commit.
	ErrEmpty = errors.New("the change is empty")
	// ErrNotOurs says that a branch is not one of the task.
	ErrNotOurs = errors.New("the branch is not one of the task")
	// ErrCheckedOut says that a branch is checked out in a worktree.
	ErrCheckedOut = errors.New("the branch is checked out")
	// ErrMoved says that others moved a branch each time that a merge was ready.
	ErrMoved = errors.New("the branch was moved each time; merge again")
	// ErrOldGit says that git cannot merge without a worktree.
	ErrOldGit = errors.New("git is too old to merge; git 2.38 or later is needed")

	errMoved = errors.New("the branch was moved")
)

// maxFiles is the maximum number of files that an error names.
const maxFiles = 20

// ConflictError says that a commit and a branch change the same lines.
type ConflictError struct {
	Files []string // at most 20
	More  int      // the number of further files
}

func (e *ConflictError) Error() string { return "conflicts with the branch: " + list(e.Files, e.More) }

// DirtyError says that a merge would overwrite changes in a worktree that has the branch checked out.
// Nothing was changed.
type DirtyError struct {
	Worktree string
	Files    []string // at most 20; none if git alone knows them
	More     int      // the number of further files
	Err      error    // of git; nil if Files are known
}

func (e *DirtyError) Error() string {
	text := fmt.Sprintf("%s has changes that the merge would overwrite", e.Worktree)
	if len(e.Files) > 0 {
		text += ": " + list(e.Files, e.More)
	}
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	return text + "; commit or stash them, or move them away"
}

func (e *DirtyError) Unwrap() error { return e.Err }

// BusyError says that a branch cannot be moved because of an unfinished operation in a worktree.
type BusyError struct {
	Worktree  string
	Operation string // such as "rebase"
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s has an unfinished %s; finish or abort it", e.Worktree, e.Operation)
}

// few returns at most maxFiles of some files, and the number of the others.
func few(files []string) ([]string, int) {
	n := min(len(files), maxFiles)
	return files[:n:n], len(files) - n
}

func list(files []string, more int) string {
	var all []string
	for _, f := range files {
		all = append(all, plaintext.OneLine(f, 200))
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}
