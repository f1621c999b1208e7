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
	"strings"

	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/private"
)

// directory owns the directory of the worktrees and the files next to them: the record, the lock and the
// lease of each attempt, and the lock of the repository. It runs no git command.
type directory struct {
	root string // absolute; without symbolic links once makeRoot has returned
}

// makeRoot makes the directory and checks that it is safe to use.
func (d *directory) makeRoot() error {
	if err := os.MkdirAll(d.root, 0o700); err != nil {
		return err
	}
	if err := private.Dir(d.root); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(d.root)
	if err == nil {
		d.root = real
	}
	return err
}

// path returns the path of a name in the directory.
func (d *directory) path(name string) string { return filepath.Join(d.root, name) }

var errRecord = errors.New("damaged record of a worktree")

// load returns the record of a name; nil if there is none.
func (d *directory) load(name string) (*record, error) {
	path := d.path(name) + recordSuffix
	text, err := private.ReadFile(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec := &record{}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(rec); err != nil {
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
func (d *directory) save(rec *record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	name := rec.attempt().name()
	temporary := d.path(name) + newSuffix
	file, err := private.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(temporary, d.path(name)+recordSuffix)
	}
	return err
}

// forget removes the record of a name.
func (d *directory) forget(name string) error {
	return removeFiles(d.path(name)+newSuffix, d.path(name)+recordSuffix)
}

// names returns the names that have a record, in order.
func (d *directory) names() (all []string, err error) {
	entries, err := os.ReadDir(d.root)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), recordSuffix); ok {
			all = append(all, name)
		}
	}
	return all, err
}

// takenPorts returns the ports that worktrees have.
func (d *directory) takenPorts() (taken []int, err error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		rec, err := d.load(name)
		if err != nil {
			return nil, fmt.Errorf("reading which ports are taken: %w", err)
		}
		if rec != nil {
			taken = append(taken, rec.Ports...)
		}
	}
	return taken, nil
}

// lock locks an attempt. Each attempt has two lock files. A process holds the lock while it makes or removes the
// worktree. The processes that use the worktree share the lease, which keeps it from being removed; they take the lease
// while they hold the lock.
func (d *directory) lock(ctx context.Context, name string) (*filelock.Lock, error) {
	return filelock.Wait(ctx, d.path(name)+lockSuffix, filelock.Exclusive)
}

// unlock releases the lock of an attempt. Its lock files are removed with its record.
func (d *directory) unlock(name string, l *filelock.Lock) error {
	var err error
	if _, e := os.Lstat(d.path(name) + recordSuffix); errors.Is(e, fs.ErrNotExist) {
		err = removeFiles(d.path(name)+leaseSuffix, d.path(name)+lockSuffix)
	}
	return errors.Join(err, l.Release())
}

// inUse reports whether a process has the lease of an attempt, which the caller has locked.
func (d *directory) inUse(name string) (bool, error) {
	if _, err := os.Lstat(d.path(name) + leaseSuffix); err != nil {
		return false, ignoreMissing(err)
	}
	l, err := filelock.Try(d.path(name)+leaseSuffix, filelock.Exclusive)
	if l == nil || err != nil {
		return l == nil && err == nil, err
	}
	return false, l.Release()
}

// looksUsed reports whether a process uses the worktree of an attempt.
func (d *directory) looksUsed(name string) (used bool, err error) {
	if _, err := os.Lstat(d.path(name) + lockSuffix); err == nil { // without the file it is not locked
		l, err := filelock.Try(d.path(name)+lockSuffix, filelock.Exclusive)
		if l == nil || err != nil {
			return err == nil, err
		}
		defer l.Release()
	}
	used, err = d.inUse(name)
	return used || processIn(d.path(name)) != 0, err
}

// lockRepo takes the lock that a process needs to change the list of worktrees or their ports.
func (d *directory) lockRepo(ctx context.Context) (*filelock.Lock, error) {
	return filelock.Wait(ctx, filepath.Join(d.root, repoLock), filelock.Exclusive)
}

// resumeVerify moves a worktree back to its path if a crash left it aside for the comparison with its snapshot.
func (d *directory) resumeVerify(name string) error {
	path := d.path(name)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return ignoreMissing(os.Rename(path+verifySuffix, path))
}

// deleteDir deletes a directory in this one with its content. It does not follow symbolic links.
func (d *directory) deleteDir(name string) error {
	root, err := os.OpenRoot(d.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return ignoreMissing(err)
	}
	err = root.RemoveAll(name)
	if errors.Is(err, fs.ErrPermission) { // directories that cannot be written, as those of the Go module cache
		err = errors.Join(makeAccessible(root, name), root.RemoveAll(name))
	}
	return err
}
