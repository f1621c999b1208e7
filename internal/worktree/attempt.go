package worktree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/safename"
)

// Attempt names one attempt of a task.
type Attempt struct {
	Task   string // any UTF-8 text of at most 4096 bytes
	Number int    // from 1
	Base   string // the commit, branch or tag to start from; only Create reads it
}

// maxTask is the maximum length of the name of a task in bytes.
const maxTask = 4096

// Names in git.
const (
	branches   = "coppice/"             // all branches of attempts begin with it
	heads      = "refs/heads/"          // branches
	parkedRefs = "refs/coppice/parked/" // what was kept of removed worktrees
)

// Names in the directory of the worktrees: the worktree itself has the name of its attempt. Names of
// attempts have no dot.
const (
	recordSuffix   = ".json"
	newSuffix      = ".new" // of a record that is being written
	lockSuffix     = ".lock"
	leaseSuffix    = ".use"
	indexSuffix    = ".index"    // of a directory with a temporary index
	verifySuffix   = ".verify"   // of a worktree that is compared with what was parked
	removingSuffix = ".removing" // of a worktree of which nothing would be lost
	repoLock       = "repo.lock"
)

func (a Attempt) check() error {
	switch {
	case a.Task == "":
		return errors.New("the attempt has no task")
	case len(a.Task) > maxTask:
		return fmt.Errorf("the name of the task has %d bytes, the limit is %d", len(a.Task), maxTask)
	case !utf8.ValidString(a.Task) || !utf8.ValidString(a.Base): // a record could not have them
		return errors.New("the name of the task or the base is not UTF-8")
	case a.Number < 1:
		return fmt.Errorf("the number of the attempt is %d, the first one is 1", a.Number)
	}
	return nil
}

// name returns the name of the worktree. Different pairs of a safe name and a number have different
// names, as the last '-' separates them.
func (a Attempt) name() string { return safename.Of(a.Task) + "-" + strconv.Itoa(a.Number) }

// Branch returns the branch of the attempt.
func (a Attempt) Branch() string { return branches + a.name() }

// String describes the attempt in messages.
func (a Attempt) String() string {
	return fmt.Sprintf("attempt %d of %q", a.Number, plaintext.OneLine(a.Task, 100))
}

// Worktree is the worktree of an attempt. It is in use until Release is called.
type Worktree struct {
	Attempt
	Path   string // absolute
	Commit string // that the branch began with
	Ports  []int  // that no other worktree of the repository has

	lease *filelock.Lock
}

// Release ends the use of the worktree by this process.
func (w *Worktree) Release() error { return w.lease.Release() }

// state records how far a worktree is made or removed, so that this can continue after a crash.
type state string

const (
	adding   state = "adding"   // the worktree and its branch may exist in part; nothing else was done
	added    state = "added"    // they exist; its files, ports and set-up may be missing
	ready    state = "ready"    // all is done
	removing state = "removing" // what would be lost is parked; the rest may exist in part
)

// record marks a worktree as one of an attempt. Its file is written before the worktree exists, and removed
// after it.
type record struct {
	Task    string    `json:"task"`
	Number  int       `json:"number"`
	Base    string    `json:"base"`
	Commit  string    `json:"commit"`
	State   state     `json:"state"`
	Partial bool      `json:"partial,omitempty"` // files may not be checked out yet
	Ports   []int     `json:"ports,omitempty"`
	Created time.Time `json:"created"`
}

func (rec *record) attempt() Attempt { return Attempt{rec.Task, rec.Number, rec.Base} }

// maxRecord is the maximum size of a record in bytes.
const maxRecord = 64 << 10

// isObjectID reports whether a text is the full name of an object.
func isObjectID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}
