package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
)

// ErrInUse is returned if another process, or another Open in this one, has the file open.
var ErrInUse = errors.New("the store is in use")

// Kind is the reason why a file cannot be used.
type Kind uint8

const (
	Damaged Kind = iota + 1 // corrupt, or not a database at all
	Newer                   // the schema of a later version
	Foreign                 // a database of another program
	Lost                    // emptied, removed, replaced, or without its last changes
)

// FileError reports that a file cannot be used as it is, why, and how to fix it.
type FileError struct {
	Path    string
	Kind    Kind
	Problem string
	Err     error // the error of SQLite, or nil
}

func (e *FileError) Error() string {
	return fmt.Sprintf("the store %s cannot be used: %s; %s", e.Path, e.Problem, e.Fix())
}

// Unwrap returns the error of SQLite, or nil.
func (e *FileError) Unwrap() error { return e.Err }

// Fix returns what the user can do, and the effect.
func (e *FileError) Fix() string {
	aside := filepath.Base(e.Path) + ".damaged-TIME"
	switch e.Kind {
	case Newer:
		return fmt.Sprintf("use that version, or let `coppice doctor --fix` keep the file as %s "+
			"and start with an empty one", aside)
	case Foreign:
		return fmt.Sprintf("name another file, or let `coppice doctor --fix` keep this one as %s "+
			"and start with an empty one", aside)
	case Lost:
		return fmt.Sprintf("`coppice restore FILE` brings a backup back, `coppice doctor --fix` accepts what is "+
			"left and keeps the file as %s", aside)
	}
	return fmt.Sprintf("`coppice doctor --fix` keeps the file as %s and starts with all of it that can still be read",
		aside)
}

// diagnose translates an error of SQLite into one that a store returns.
func diagnose(path, doing string, err error) error {
	var file *FileError
	if errors.As(err, &file) {
		return err
	}
	if errors.Is(err, sql.ErrNoRows) { // only rows that each store has are asked for one by one
		return &FileError{Path: path, Kind: Damaged, Problem: "a row is missing that each store has", Err: err}
	}
	var sentinel error
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s %s: %w", doing, path, err)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		sentinel = store.ErrFull
	case sqlite3.SQLITE_READONLY:
		sentinel = store.ErrReadOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_ERROR: // statements are constant, so the tables must be wrong
		return &FileError{Path: path, Kind: Damaged, Problem: "SQLite says: " + err.Error(), Err: err}
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		// SQLite has no code for a full or read-only disk here.
		sentinel = diskState(path)
	}
	if sentinel != nil {
		return fmt.Errorf("%s %s: %w: %w", doing, path, sentinel, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

// afterReading returns the error of a read that ended with err, or nil.
func (s *Store) afterReading(ctx context.Context, doing string, err error) error {
	if moved := s.fileState.check(s.path); moved != nil {
		return moved // which also explains err
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closed.Load():
		return store.ErrClosed
	}
	return diagnose(s.path, doing, err)
}

// pathError adds the path, and the sentinel error of package store if there is one.
func pathError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: %w: %w", path, store.ErrFull, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: %w: %w", path, store.ErrReadOnly, err)
	}
	var p *fs.PathError
	var unsafe *private.Error
	if errors.As(err, &p) || errors.As(err, &unsafe) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
