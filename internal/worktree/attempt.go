package worktree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
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

	lease *fileLock
}

// Release says that this process does not use the worktree any longer.
func (w *Worktree) Release() error { return w.lease.release() }

// state is how far the worktree of a record is made. After a crash it says where to continue.
type state string

const (
	adding   state = "adding"   // the worktree and its branch may exist in part; nothing else was done
	added    state = "added"    // they exist; its files, ports and set-up may be missing
	ready    state = "ready"    // all is done
	removing state = "removing" // what would be lost is parked; the rest may exist in part
)

// record is the file that marks a worktree as one of an attempt. It is written before the worktree
// exists, and removed after it.
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

func (r *Repo) path(name string) string { return filepath.Join(r.dir, name) }

var errRecord = errors.New("damaged record of a worktree")

// load returns the record of a name; nil if there is none.
func (r *Repo) load(name string) (*record, error) {
	path := r.path(name) + recordSuffix
	text, err := private.ReadFile(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec := &record{}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(rec); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, errRecord, err)
	}
	a := rec.attempt()
	switch {
	case a.check() != nil || a.name() != name:
		return nil, fmt.Errorf("%s: %w: it is for another attempt", path, errRecord)
	case !isObjectID(rec.Commit):
		return nil, fmt.Errorf("%s: %w: it has no commit", path, errRecord)
	}
	return rec, nil
}

// save writes a record; a crash leaves the old one or the new one.
func (r *Repo) save(rec *record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	name := rec.attempt().name()
	temporary := r.path(name) + newSuffix
	file, err := private.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(temporary, r.path(name)+recordSuffix)
	}
	return err
}

// forget removes the record of a name.
func (r *Repo) forget(name string) error {
	return removeFiles(r.path(name)+newSuffix, r.path(name)+recordSuffix)
}

// names returns the names that have a record, in order.
func (r *Repo) names() (all []string, err error) {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), recordSuffix); ok {
			all = append(all, name)
		}
	}
	return all, err
}

// resolve returns the commit that a base names.
func (r *Repo) resolve(ctx context.Context, base string) (string, error) {
	if base == "" {
		base = "HEAD"
	}
	commit, ok := git{dir: r.own}.commit(ctx, base)
	if !ok {
		return "", fmt.Errorf("the base %q is no commit of the repository", plaintext.OneLine(base, 200))
	}
	return commit, nil
}

// isObjectID reports whether a text is the full name of an object.
func isObjectID(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}
