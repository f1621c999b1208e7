package opencode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"modernc.org/sqlite" // no cgo

	"github.com/coppice-dev/coppice/internal/store/sqlite/readonly"
)

// A snapshot is read by package readonly. So opencode is never held up, nothing is written next to its files, and it
// makes no difference whether opencode runs, has ended or was killed.
//
// Without locks the files may change meanwhile. What is appended to the log does no harm, since a snapshot ends with
// the last commit that it has found. What opencode moves from the log into the database does, and so does a log that
// begins again. Both are recognised afterwards, and the snapshot is then dropped and read again.

// coarse is the precision of the times of files. A file that was written within it before it was looked at may be
// written again without a change of its time.
const coarse = 50 * time.Millisecond

// attempts bounds how often a snapshot is read before it is left to the next call.
const attempts = 5

// Bounds of a snapshot.
const (
	maxLog   = 256 << 20 // bytes of the write-ahead log, which is read as a whole
	maxValue = 4 << 20   // bytes of a value
	readTime = 10 * time.Second
)

// errChanged is the error of a snapshot that has changed while it was read.
var errChanged = errors.New("the database of opencode was changed while it was read")

// logHeader is the start of a write-ahead log, which has other random numbers when the log begins again.
type logHeader [32]byte

// state is that of the files of a database. log is nil if there is none.
type state struct {
	file, log fs.FileInfo
	header    logHeader
	at        time.Time
}

func stat(dir fs.StatFS, name string) (s state, err error) {
	s.at = time.Now()
	if s.file, err = dir.Stat(name); err != nil {
		return s, err
	}
	if s.log, err = dir.Stat(name + readonly.LogSuffix); errors.Is(err, fs.ErrNotExist) {
		s.log, err = nil, nil
	}
	if err != nil || s.log == nil {
		return s, err
	}
	if s.log.Size() > maxLog {
		return s, fmt.Errorf("%s has %d bytes, expected at most %d", name+readonly.LogSuffix, s.log.Size(), maxLog)
	}
	f, err := dir.Open(name + readonly.LogSuffix)
	if err != nil {
		return s, err
	}
	defer f.Close()
	_, err = io.ReadFull(f, s.header[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // nothing was committed yet
		err = nil
	}
	return s, err
}

func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// fresh returns for how long after a look at a file another change of the file may not be seen.
func fresh(at time.Time, info fs.FileInfo) time.Duration {
	if age := at.Sub(info.ModTime()).Abs(); age < coarse {
		return coarse - age
	}
	return 0
}

// unchanged reports whether nothing was written between two states.
func (s state) unchanged(now state) bool {
	return s.file != nil && same(s.file, now.file) && same(s.log, now.log) && s.header == now.header &&
		fresh(s.at, s.file) == 0 && (s.log == nil || fresh(s.at, s.log) == 0)
}

// holds reports whether a snapshot that was read between two states is consistent.
func (s state) holds(now state) bool {
	if !same(s.file, now.file) || s.header != now.header || (s.log == nil) != (now.log == nil) {
		return false
	}
	return s.log == nil || os.SameFile(s.log, now.log) && now.log.Size() >= s.log.Size()
}

// snapshot has read read a database, until it has read a consistent state of it, and returns that. If the state is
// unchanged since last, read is not called.
func snapshot(dir fs.StatFS, name string, last state, read func(*conn) error) (state, error) {
	for attempt := 1; ; attempt++ {
		before, err := stat(dir, name)
		if err != nil || last.unchanged(before) {
			return before, err
		}
		wait := fresh(before.at, before.file)
		if wait == 0 {
			failed := query(dir, name, read)
			after, err := stat(dir, name)
			if err != nil {
				return before, err
			}
			if before.holds(after) {
				return before, failed
			}
			wait = coarse
		}
		if attempt == attempts {
			return before, errChanged
		}
		<-time.After(wait)
	}
}

// conn is the connection of a snapshot.
type conn struct {
	*sql.Conn
	ctx context.Context
}

// query opens a database for reading.
func query(dir fs.StatFS, name string, read func(*conn) error) (err error) {
	db, forget, err := readonly.Open(dir, name)
	if err != nil {
		return err
	}
	defer forget()
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := sqlite.Limit(c, limitLength, maxValue); err != nil {
		return err
	}
	return read(&conn{c, ctx})
}

// limitLength is SQLITE_LIMIT_LENGTH, the limit of the bytes of a value.
const limitLength = 0
