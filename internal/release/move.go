package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/filelock"
	gitcmd "github.com/coppice-dev/coppice/internal/git"
	"github.com/coppice-dev/coppice/internal/private"
)

// refLock is the lock of a branch. It is held while the branch is moved, and during a whole merge into it, so that one
// merge is checked at a time. The git command that moves the branch holds it as well. A process takes it before the
// lock of a worktree (index.flock). The files of the locks are never removed.
type refLock struct {
	*filelock.Lock
	ref    string
	record string // the file that says that the branch is being moved
}

// moving is the content of the record of a refLock. A git command that is killed while it moves a branch leaves its
// lock files, and git never removes them. Who finds a record knows that they may be there.
type moving struct {
	Commit string `json:"commit"`
}

// staleAfter is the time after which a lock file of git that does not change belongs to no process. Commands hold it
// for some milliseconds.
const staleAfter = 3 * time.Second

// lockBranch takes the lock of a branch, and removes the lock files that a killed git command has left.
func (r *Repo) lockBranch(ctx context.Context, ref string) (*refLock, error) {
	name := r.lockName(ref)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return nil, err
	}
	lock, err := filelock.Wait(ctx, name+".lock", filelock.Exclusive)
	if err != nil {
		return nil, err
	}
	l := &refLock{lock, ref, name + ".moving"}
	if err := r.clear(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// lockName returns the path of the files of a lock, without its suffix.
func (r *Repo) lockName(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(r.common, "coppice-release", hex.EncodeToString(sum[:16]))
}

// move moves a locked branch from one commit to another, or makes it if old is "". It returns errMoved if the branch is
// not at old.
func (r *Repo) move(ctx context.Context, g gitcmd.Runner, l *refLock, old, commit, why string) error {
	expected := old
	if old == "" {
		expected = strings.Repeat("0", len(commit))
	}
	who, err := r.identity(ctx)
	if err != nil {
		return err
	}
	if err := l.begin(moving{commit}); err != nil {
		return err
	}
	g.Env = append(g.Env, who.environ(time.Now())...) // for the reflog
	g.Files = append(g.Files, l.File())
	_, err = g.Run(ctx, "update-ref", "--no-deref", "-m", why, "--", l.ref, commit, expected)
	if err != nil && gitcmd.ExitCode(err) < 0 { // it was killed
		return errors.Join(err, r.clear(context.WithoutCancel(ctx), l))
	}
	if e := os.Remove(l.record); e != nil {
		return errors.Join(err, e)
	}
	if err == nil {
		return nil
	}
	switch tip, e := r.tip(ctx, l.ref); {
	case e != nil || tip == old:
		return err
	case tip == commit:
		return nil
	default:
		return errMoved
	}
}

// begin writes the record, durably: lock files of git may survive a loss of power, too.
func (l *refLock) begin(m moving) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(l.record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// clear removes the lock files of the git command that a record is about. That command has ended, since it would hold
// the lock of the branch.
func (r *Repo) clear(ctx context.Context, l *refLock) error {
	info, err := os.Lstat(l.record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := private.ReadFile(l.record, maxGitFile)
	if err != nil {
		return err
	}
	var m moving
	if json.Unmarshal(text, &m) != nil || !isID(m.Commit) {
		return os.Remove(l.record) // its process was killed before it called git
	}
	files := []string{filepath.Join(r.common, l.ref)}
	all, err := r.places()
	if err != nil {
		return err
	}
	for _, p := range all {
		head, err := p.head()
		if err != nil {
			return err
		}
		if head == l.ref { // git locks it for its reflog
			files = append(files, filepath.Join(p.git, "HEAD"))
		}
	}
	for _, file := range files {
		if err := r.clearLock(ctx, file+".lock", m.Commit, info.ModTime()); err != nil {
			return err
		}
	}
	return os.Remove(l.record)
}

// clearLock removes a lock file that a git command has left which moved a branch to a commit, since a time. The lock of
// another command stays: it is older, has other content, or does not last.
func (r *Repo) clearLock(ctx context.Context, name, commit string, since time.Time) error {
	first, err := os.Lstat(name)
	if err == nil {
		began := time.Now()
		err = gitcmd.RetryLocked(ctx, func() (locked bool, err error) {
			text, err := private.ReadFile(name, maxGitFile)
			if err != nil {
				return false, err
			}
			info, err := os.Lstat(name)
			switch {
			case err != nil:
				return false, err
			case info.ModTime().Before(since), len(text) > 0 && strings.TrimSuffix(string(text), "\n") != commit,
				!os.SameFile(info, first), !info.ModTime().Equal(first.ModTime()):
				return false, nil
			case time.Since(began) >= r.stale:
				return false, removeIfExists(name)
			}
			return true, nil
		})
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
