package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
)

// markSuffix is the suffix of a file next to the database that records the ID of the store and a
// revision that it has reached. SQLite accepts an empty file as a new database, and a database
// without its log as an older one. The mark reveals both.
const markSuffix = ".mark"

// markFormat has a fixed length, so a mark is overwritten in place: it is never missing in
// between, and needs no room on a full disk.
const markFormat = "coppice store %16s revision %020d\n"

var errBadMark = errors.New("it cannot be read")

// readMark returns the contents of the mark of a store. The error is fs.ErrNotExist if there is
// none.
func readMark(path string) (id string, rev store.Rev, err error) {
	f, err := private.OpenFile(path+markSuffix, os.O_RDONLY)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return "", 0, err
	}
	if _, err := fmt.Sscanf(string(text), markFormat, &id, &rev); err != nil ||
		fmt.Sprintf(markFormat, id, rev) != string(text) {
		return "", 0, fmt.Errorf("%s%s: %w", path, markSuffix, errBadMark)
	}
	return id, rev, nil
}

// mark is the mark of an open store.
type mark struct {
	path string
	id   string
	file *os.File // nil if it cannot be written
}

// openMark writes the mark of a store. A disk error does not keep the store from being used: a
// later call may succeed.
func openMark(path, id string, rev store.Rev) (*mark, error) {
	m := &mark{path: path + markSuffix, id: id}
	_, err := os.Lstat(m.path)
	made := errors.Is(err, fs.ErrNotExist)
	m.file, err = private.OpenFile(m.path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return m, err
	}
	text := fmt.Appendf(nil, markFormat, id, rev)
	if _, err = m.file.WriteAt(text, 0); err == nil {
		err = m.file.Truncate(int64(len(text)))
	}
	if err == nil && made {
		err = errors.Join(m.file.Sync(), syncFile(filepath.Dir(path)))
	}
	return m, err
}

// reached records the current revision. It does not sync: after a power cut an older mark is
// still true.
func (m *mark) reached(rev store.Rev) {
	if m.file != nil {
		m.file.WriteAt(fmt.Appendf(nil, markFormat, m.id, rev), 0)
	}
}

// present reports whether the file of the mark exists and is the one that is open.
func (m *mark) present() bool {
	if m.file == nil {
		return false
	}
	own, err := m.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(m.path)
	return err == nil && os.SameFile(own, now) && now.Size() > 0
}

func (m *mark) close() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}

// Exists reports whether there is a store at path, or the mark of one.
func Exists(path string) bool {
	for _, suffix := range []string{"", markSuffix} {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// Remove removes the store at path, which must not be open. The file of its lock stays, as another
// process may be about to take it.
func Remove(path string) error {
	lock, err := acquireLock(path)
	if err != nil {
		return err
	}
	var errs []error
	for _, suffix := range append([]string{markSuffix}, fileSuffixes...) { // without the mark, nothing is lost
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, lock.Close())...)
}

// checkPresent returns a *FileError if there is a mark but the file is missing or empty.
func checkPresent(path string) error {
	_, rev, err := readMark(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	info, statErr := os.Lstat(path)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return lost(path, "the file is gone", rev)
	case statErr == nil && info.Mode().IsRegular() && info.Size() == 0:
		return lost(path, "the file was emptied", rev)
	}
	return nil
}

// checkReached returns a *FileError if the mark has another ID than the file, or a later
// revision.
func checkReached(path, id string, rev store.Rev) error {
	marked, reached, err := readMark(path)
	switch {
	case err != nil: // it will be written again
		return nil
	case marked != id:
		return lost(path, fmt.Sprintf("it is another store (%s) than the one that was here (%s)", id, marked), reached)
	case reached > rev:
		return lost(path, fmt.Sprintf("its last changes are gone, it is at revision %d", rev), reached)
	}
	return nil
}

func lost(path, what string, reached store.Rev) *FileError {
	if reached > 0 {
		what += fmt.Sprintf("; the store had reached revision %d", reached)
	}
	return &FileError{Path: path, Kind: Lost, Problem: what}
}
