package logfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	size  int64
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
	l.max, l.keep = c.MaxSize, c.Keep
	if l.max <= 0 {
		l.max = defaultMaxSize
	}
	if l.keep <= 0 {
		l.keep = defaultKeep
	}
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

// Append writes b to the log.
func (l *Writer) Append(b []byte) {
	l.Touch()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil && l.size > 0 && l.size+int64(len(b)) > l.max {
		l.rotate()
	}
	l.settle()
	if l.f == nil && !l.open() {
		l.lost += int64(len(b))
		return
	}
	if l.lost > 0 {
		note := fmt.Sprintf("\n[coppice: %d bytes of output could not be written]\n", l.lost)
		if n, err := io.WriteString(l.f, note); err != nil {
			l.size += int64(n)
			l.lost += int64(len(b))
			return
		}
		l.size += int64(len(note))
		l.lost = 0
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	if err != nil { // the disk is full
		l.lost += int64(len(b) - n)
	}
}

// settleTime is how long output goes on into a file that was removed.
const settleTime = time.Second

// settle opens another file if somebody has removed the log.
func (l *Writer) settle() {
	now := time.Now()
	if l.f == nil || now.Sub(l.seen) < settleTime {
		return
	}
	l.seen = now
	there, err := os.Stat(l.file)
	own, ownErr := l.f.Stat()
	if err == nil && ownErr == nil && os.SameFile(there, own) {
		return
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // who cannot see cannot tell
	}
	old := l.f
	l.f = nil
	if l.open() {
		old.Close()
		return
	}
	l.f = old
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
	name := func(i int) string {
		if i == 0 {
			return l.file
		}
		return fmt.Sprintf("%s.%d", l.file, i)
	}
	for i := l.keep - 1; i >= 0; i-- {
		os.Rename(name(i), name(i+1))
	}
	for i := l.keep + 1; os.Remove(name(i)) == nil; i++ { // of a time when more were kept
	}
	old := l.f
	l.f = nil
	if l.open() {
		old.Close()
		return
	}
	l.f = old
}

// Tail returns the last bytes of the log, from the beginning of a line.
func (l *Writer) Tail(n int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Open(l.file)
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
	for i := 0; from > 0 && i < len(b); i++ {
		if b[i] == '\n' {
			return b[i+1:]
		}
	}
	return b
}
