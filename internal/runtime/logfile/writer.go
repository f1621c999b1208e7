package logfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
)

// Name is the name of the log in the directory of a slot. It is rotated to output.log.1, .2, ...
const Name = "output.log"

// Is reports whether a file in the directory of a slot, given by its name, is of the log: a rotated one, or an index.
func Is(name string) bool {
	return name == Name || strings.HasPrefix(name, Name+".") || strings.HasPrefix(name, indexName)
}

// Defaults of runtime.Log.
const (
	defaultMaxSize = 10 << 20
	defaultKeep    = 3
)

// Writer appends the output of agents to the log of a slot. It never fails: output that cannot
// be written is lost, and counted. NewWriter creates it.
type Writer struct {
	file string
	last atomic.Int64 // time of the last activity, Unix nanoseconds

	mu    sync.Mutex
	f     *os.File
	index index
	size  int64
	run   uint64  // incarnation that writes; 0 if unknown
	begun int64   // where its output in the file begins
	marks []entry // marks that wait because the log is not open; their offsets are not set
	max   int64
	keep  int
	retry time.Time // when to try again to open a file
	seen  time.Time // when the file was last checked
	lost  int64     // bytes since the last successful write
}

// NewWriter returns a Writer with the defaults of runtime.Log.
func NewWriter(file string) *Writer {
	return &Writer{file: file, max: defaultMaxSize, keep: defaultKeep}
}

// Limit sets the size at which the log is rotated and the number of files that are kept.
func (l *Writer) Limit(c runtime.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.keep = cmp.Or(max(0, c.MaxSize), defaultMaxSize), cmp.Or(max(0, c.Keep), defaultKeep)
}

// Touch records activity.
func (l *Writer) Touch() { l.last.Store(time.Now().UnixNano()) }

// Activity returns the time of the last activity; zero if there was none.
func (l *Writer) Activity() time.Time {
	if n := l.last.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Begin records that the output that follows is that of an incarnation. It writes nothing before
// there is output.
func (l *Writer) Begin(incarnation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = incarnation
	l.marks = append(l.marks, entry{at: time.Now(), mark: &mark{Incarnation: incarnation, Event: began}})
	if len(l.marks) > maxMarks {
		l.marks = l.marks[1:]
	}
	if l.f != nil {
		l.putMarks()
	}
}

// maxMarks bounds the marks that wait for output.
const maxMarks = 16

// End records that an incarnation has ended, and how. If there was no output, only a failure is
// written.
func (l *Writer) End(incarnation uint64, how string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how = strings.ToValidUTF8(how[:min(len(how), maxHow)], "")
	l.marks = append(l.marks, entry{at: time.Now(), mark: &mark{Incarnation: incarnation, Event: ended, How: how}})
	if l.f != nil || failed && l.open() {
		l.putMarks()
	}
}

// putMarks writes the waiting marks, each at the end of a line.
func (l *Writer) putMarks() {
	for _, e := range l.marks {
		if !l.endsLine() {
			n, _ := io.WriteString(l.f, "\n")
			l.size += int64(n)
		}
		e.offset, l.begun = l.size, l.size
		l.index.put(e)
	}
	l.marks = nil
}

// endsLine reports whether the file ends with a newline.
func (l *Writer) endsLine() bool {
	if l.size == 0 {
		return true
	}
	f, err := private.OpenFile(l.file, os.O_RDONLY)
	if err != nil {
		return true
	}
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], l.size-1)
	return err != nil || b[0] == '\n'
}

// Append writes b to the log. If the file gets too long, it is rotated between two lines of b.
func (l *Writer) Append(b []byte) {
	l.Touch()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkFile()
	if l.f == nil && !l.open() {
		l.lost += int64(len(b))
		return
	}
	if l.marks != nil {
		l.putMarks()
	}
	for len(b) > 0 {
		n := l.fits(b)
		if n == 0 {
			l.rotate()
			if n = l.fits(b); n == 0 {
				n = len(b) // it could not be rotated
			}
		}
		l.stamp()
		if written := l.write(b[:n]); written < n { // the disk is full
			l.lost += int64(len(b) - written)
			return
		}
		b = b[n:]
	}
}

// fits returns how much of b may be written to the file: complete lines, or a single one that is
// too long for any file. 0 means that the file is full.
func (l *Writer) fits(b []byte) int {
	free := l.max - l.size
	if int64(len(b)) <= free {
		return len(b)
	}
	if n := bytes.LastIndexByte(b[:max(0, free)], '\n') + 1; n > 0 || l.size > 0 {
		return n
	}
	return cmp.Or(bytes.IndexByte(b, '\n')+1, len(b))
}

// stamp adds the time of the following output to the index.
func (l *Writer) stamp() {
	if now := time.Unix(0, l.last.Load()); now.Sub(l.index.last).Abs() >= indexStep {
		l.index.put(entry{offset: l.size, at: now})
	}
}

// write writes b to the file, after a note about output that was lost.
func (l *Writer) write(b []byte) int {
	if l.lost > 0 {
		note := fmt.Sprintf("\n[coppice: %d bytes of output could not be written]\n", l.lost)
		n, err := io.WriteString(l.f, note)
		l.size += int64(n)
		if err != nil {
			return 0
		}
		l.lost = 0
	}
	n, _ := l.f.Write(b)
	l.size += int64(n)
	return n
}

// checkInterval bounds the time that output goes to a file that was removed.
const checkInterval = time.Second

// checkFile opens another file if the log was removed.
func (l *Writer) checkFile() {
	now := time.Now()
	if l.f == nil || now.Sub(l.seen) < checkInterval {
		return
	}
	l.seen = now
	if _, err := os.Stat(l.file); same(l.f, l.file) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // unchanged, or it cannot be looked at
	}
	l.reopen()
}

func (l *Writer) open() bool {
	if now := time.Now(); now.Before(l.retry) {
		return false
	}
	f, err := private.OpenFile(l.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err == nil {
		var st os.FileInfo
		if st, err = f.Stat(); err == nil {
			l.f, l.size, l.begun = f, st.Size(), 0
			l.index.close()
			l.index = openIndex(l.file, st)
			if l.run != 0 && len(l.marks) == 0 { // otherwise a mark has it
				l.index.put(entry{offset: l.size, at: time.Now(), mark: &mark{Incarnation: l.run}})
			}
			return true
		}
		f.Close()
	}
	l.retry = time.Now().Add(time.Second)
	return false
}

// rotate renames output.log to output.log.1, that to .2, and so on. If the directory is gone,
// output continues to go to the old file.
//
// It removes the oldest files first. A rename onto one of them would make ext4 write all of the
// renamed file to the disk at once (auto_da_alloc), so a program that writes much would be as slow
// as the disk. What is removed soon after it was written need never get there.
func (l *Writer) rotate() {
	for i := l.keep; os.Remove(rotated(l.file, i)) == nil; i++ {
	}
	for i := l.keep - 1; i >= 0; i-- {
		os.Rename(rotated(l.file, i), rotated(l.file, i+1))
	}
	if l.reopen() {
		prune(l.file)
	}
}

// reopen opens the log again. If that fails, output continues to go to the old file.
func (l *Writer) reopen() bool {
	old := l.f
	l.f = nil
	if !l.open() {
		l.f = old
		return false
	}
	old.Close()
	return true
}

// rotated returns the name of a log file by its number; the current one has number 0.
func rotated(file string, i int) string {
	if i == 0 {
		return file
	}
	return fmt.Sprintf("%s.%d", file, i)
}

// Tail returns the last bytes of the log, from the beginning of a line.
func (l *Writer) Tail(n int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, all := l.tail(n, 0)
	if all {
		return b
	}
	return b[bytes.IndexByte(b, '\n')+1:]
}

// Recent returns the last bytes of the output of the incarnation that writes, as far as they are in the current file.
func (l *Writer) Recent(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks != nil { // it has written nothing yet
		return nil
	}
	b, _ := l.tail(int64(n), l.begun)
	return b
}

// tail returns the last bytes of the file after an offset, and whether these are all.
func (l *Writer) tail(n, after int64) (b []byte, all bool) {
	f, err := private.OpenFile(l.file, os.O_RDONLY)
	if err != nil {
		return nil, true
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, true
	}
	from := max(after, st.Size()-n)
	b = make([]byte, max(0, st.Size()-from))
	if _, err := f.ReadAt(b, from); err != nil {
		return nil, true
	}
	return b, from == after
}
