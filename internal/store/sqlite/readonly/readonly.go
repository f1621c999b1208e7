// Package readonly opens files of SQLite for reading, whatever has them open. It takes no lock, and writes nothing next
// to them, so it works on a read-only file system, too.
//
// SQLite reads the write-ahead log with an index in memory, as it does for the only user of a file: the file system
// that it is given has no locks and no shared memory. What others write meanwhile may so be read in part; a caller that
// cannot exclude that has to compare the files before and after.
package readonly

import (
	"bytes"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"time"

	_ "modernc.org/sqlite" // no cgo
	"modernc.org/sqlite/vfs"
)

// LogSuffix is that of the write-ahead log.
const LogSuffix = "-wal"

// Open opens a database in a directory, for one connection at a time. forget is to be called after the database was
// closed.
func Open(dir fs.StatFS, name string) (db *sql.DB, forget func() error, err error) {
	files, registered, err := vfs.New(directory{dir})
	if err != nil {
		return nil, nil, err
	}
	db, err = sql.Open("sqlite", "file:"+url.PathEscape(name)+"?mode=ro&vfs="+files+
		"&_pragma=locking_mode(exclusive)&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)"+
		"&_pragma=temp_store(memory)")
	if err != nil {
		return nil, nil, errors.Join(err, registered.Close())
	}
	db.SetMaxOpenConns(1)
	return db, registered.Close, nil
}

// directory is a directory as SQLite sees it. SQLite also asks for the write-ahead log of a database that was closed
// properly and has none; an empty file serves instead.
type directory struct{ fs.StatFS }

// Open implements fs.FS.
func (d directory) Open(name string) (fs.File, error) {
	f, err := d.StatFS.Open(name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, LogSuffix) {
		return noFile{bytes.NewReader(nil)}, nil
	}
	return f, err
}

// noFile is an empty file.
type noFile struct{ *bytes.Reader }

func (f noFile) Stat() (fs.FileInfo, error) { return f, nil }
func (noFile) Close() error                 { return nil }
func (noFile) Name() string                 { return "" }
func (noFile) Mode() fs.FileMode            { return 0o400 }
func (noFile) ModTime() time.Time           { return time.Time{} }
func (noFile) IsDir() bool                  { return false }
func (noFile) Sys() any                     { return nil }
