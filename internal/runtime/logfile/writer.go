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

// Defaults of runtime.Log.
const (
	defaultMaxSize = 10 << 20
	defaultKeep    = 3
)

// Writer appends to a log what the agents of the slot write. It never fails:
// what cannot be written is lost, and counted. NewWriter makes it.
type Writer struct {
	file string
	last atomic.Int64 // time of the last activity, Unix nanoseconds

	mu    sync.Mutex
	f     *os.File
	index index
	size  int64
	run   uint64  // incarnation whose output it is; 0: not known
	marks []entry // that are not written yet: the log is not open, offsets do not count
	max   int64
	keep  int
	retry time.Time // when a file that could not be opened is tried again
	seen  time.Time // when the file was last found in its place
	lost  int64     // bytes since the last that could be written
}

// NewWriter makes a Writer with the defaults of runtime.Log.
func NewWriter(file string) *Writer {
	return &Writer{file: file, max: defaultMaxSize, keep: defaultKeep}
}

// Limit says when the log is rotated and how much of it is kept.
func (l *Writer) Limit(c runtime.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.keep = cmp.Or(max(0, c.MaxSize), defaultMaxSize), cmp.Or(max(0, c.Keep), defaultKeep)
}

// Touch notes that there was activity.
func (l *Writer) Touch() { l.last.Store(time.Now().UnixNano()) }

// Activity is when there was some last; zero if there was none.
func (l *Writer) Activity() time.Time {
	if n := l.last.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Begin notes that what comes is the output of an incarnation. Nothing is written
// before there is some.
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

// maxMarks bounds how many marks wait for output.
const maxMarks = 16

// End notes that an incarnation has ended, and how in words. Where nothing was ever
// written, it writes that only of a failure.
func (l *Writer) End(incarnation uint64, how string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	how = strings.ToValidUTF8(how[:min(len(how), maxHow)], "")
	l.marks = append(l.marks, entry{at: time.Now(), mark: &mark{Incarnation: incarnation, Event: ended, How: how}})
	if l.f != nil || failed && l.open() {
		l.putMarks()
	}
}

// putMarks writes the marks that wait, each at the end of a line.
func (l *Writer) putMarks() {
	for _, e := range l.marks {
		if !l.endsLine() {
			n, _ := io.WriteString(l.f, "\n")
			l.size += int64(n)
		}
		e.offset = l.size
		l.index.put(e)
	}
	l.marks = nil
}

// endsLine reports whether the file ends with the end of a line.
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

// Append writes b to the log. Where that would become too long it is rotated
// between two lines of b.
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

// fits returns how much of b may go into the file: whole lines, or a single one
// that is too long for any file. 0: the file is full.
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

// stamp notes in the index when what comes is written.
func (l *Writer) stamp() {
	if now := time.Unix(0, l.last.Load()); now.Sub(l.index.last).Abs() >= indexStep {
		l.index.put(entry{offset: l.size, at: now})
	}
}

// write writes b to the file, after a note of what was lost before.
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

// checkInterval is how long output goes on into a file that was removed.
const checkInterval = time.Second

// settle opens another file if somebody has removed the log.
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
			l.f, l.size = f, st.Size()
			l.index.close()
			l.index = openIndex(l.file, st)
			if l.run != 0 && len(l.marks) == 0 { // else a mark says it
				l.index.put(entry{offset: l.size, at: time.Now(), mark: &mark{Incarnation: l.run}})
			}
			return true
		}
		f.Close()
	}
	l.retry = time.Now().Add(time.Second)
	return false
}

// rotate makes output.log output.log.1, that .2, and so on. If the directory
// is gone, what comes goes to the old file until it is back.
func (l *Writer) rotate() {
	for i := l.keep - 1; i >= 0; i-- {
		os.Rename(rotated(l.file, i), rotated(l.file, i+1))
	}
	for i := l.keep + 1; os.Remove(rotated(l.file, i)) == nil; i++ { // of a time when more were kept
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
	f, err := private.OpenFile(l.file, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(0, st.Size()-n)
	b := make([]byte, st.Size()-from)
	if _, err := f.ReadAt(b, from); err != nil {
		return nil
	}
	if from > 0 {
		return b[bytes.IndexByte(b, '\n')+1:]
	}
	return b
}
