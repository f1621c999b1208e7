// Package logfile writes, rotates and reads the output log of a slot. It is written by the
// process that holds the agent's output. Other processes read it from its end and follow it,
// without any communication with the writer.
package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

const (
	maxPeek = 10_000  // lines
	maxTail = 1 << 20 // bytes of a log file that Peek examines
	maxKept = 1000    // rotated files that are looked for
)

// Line is a line of a log, or the place between two incarnations.
type Line struct {
	Text        string    // may contain escape sequences: see plaintext.Line
	Time        time.Time // of its beginning, to 10 ms; zero if unknown
	Incarnation uint64    // that wrote it; 0 if unknown
	Between     *Between  // if not nil, there is no text
}

// Between marks the end of the output of an incarnation, the beginning of that of the next one,
// or both.
type Between struct {
	Ended   uint64 // 0 if none has ended
	EndedAt time.Time
	How     string // how it ended
	Began   uint64 // 0 if none has begun yet; the time is that of the Line
}

// Texts returns a function that passes on the text of lines only.
func Texts(f func(string)) func(Line) {
	return func(l Line) {
		if l.Between == nil {
			f(l.Text)
		}
	}
}

// Peek returns the last n lines of the log, without escape sequences.
func Peek(file string, n int) ([]string, error) {
	if n = min(n, maxPeek); n <= 0 {
		return nil, nil
	}
	t, err := last(file, n, maxTail)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var lines []string
	add := Texts(func(text string) { lines = append(lines, plaintext.Line(text)) })
	for left, more := t.unread(), true; more && left >= 0; left -= maxSome { // it may grow faster than it is read
		if more, err = t.Some(add); err != nil {
			return nil, err
		}
		lines = slices.Clone(lines[max(0, len(lines)-n):])
	}
	t.Rest(add)
	return lines[max(0, len(lines)-n):], nil
}

// unread returns the number of bytes that are not read yet.
func (t *Tail) unread() (n int64) {
	for i := range maxKept + 1 {
		f, err := t.kept(i)
		if err != nil {
			break
		}
		st, err := f.Stat()
		f.Close()
		if err != nil {
			break
		}
		if n += st.Size(); inode(st) == t.inode {
			return n - t.offset
		}
	}
	return n
}

// Tail reads a log that is being written and rotated.
type Tail struct {
	file    string
	f       *os.File // nil if there is none yet
	inode   uint64
	times   *times
	offset  int64  // in f, of the beginning of partial
	partial []byte // beginning of a line whose end was not read
	recent  []byte // bytes before partial, for a Mark

	at          time.Time // time of the last entry
	incarnation uint64
	pendingEnd  *Line // end of an incarnation that was not emitted yet
	passed      int64 // Unix ms of the last Between at offset; 0 if there was none
}

// kept opens a file by its number. During a rotation a number may be missing for a moment.
func (t *Tail) kept(i int) (f *os.File, err error) {
	for range 20 {
		if f, err = private.OpenFile(rotated(t.file, i), os.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if _, e := os.Lstat(rotated(t.file, i+1)); e != nil {
			break
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the process that renames does not say when it is done
	}
	return f, err
}

// start begins to read a file at the beginning of a line.
func (t *Tail) start(f *os.File, offset int64) error {
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return err
	}
	t.Close()
	t.f, t.offset, t.times, t.passed = f, offset, openTimes(t.file, f), 0
	if st, err := f.Stat(); err == nil {
		t.inode = inode(st)
	}
	t.recent = preceding(f, offset)
	t.skip(func(e entry) bool { return e.offset < offset }) // to know the time and the incarnation here
	return nil
}

// skip reads entries without emitting anything, up to the first that is not to be skipped.
func (t *Tail) skip(skipped func(entry) bool) {
	for {
		for len(t.times.ahead) > 0 {
			e := t.times.ahead[0]
			if !skipped(e) {
				return
			}
			t.times.ahead = t.times.ahead[1:]
			t.hold(e)
			if e.mark != nil && e.mark.Event != "" && e.offset == t.offset { // so that a Mark does not go back to it
				t.passed = e.at.UnixMilli()
			}
		}
		if !t.times.read(t.file) {
			return
		}
	}
}

// hold applies an entry to what comes after it.
func (t *Tail) hold(e entry) {
	t.at = e.at
	if e.mark != nil {
		t.incarnation = e.mark.Incarnation
	}
}

// Close closes the file.
func (t *Tail) Close() {
	if t.f != nil {
		t.f.Close()
		t.times.close()
		t.f = nil
	}
}

// Next emits the lines that were added.
func (t *Tail) Next(emit func(Line)) error {
	for more := true; more; {
		var err error
		if more, err = t.Some(emit); err != nil {
			return err
		}
	}
	return nil
}

// maxSome bounds what Some reads in a call, because a log may grow faster than it is read.
const maxSome = 64 << 10

// Some emits some of the lines that were added, and reports whether there may be more.
func (t *Tail) Some(emit func(Line)) (more bool, err error) {
	buf := make([]byte, 32<<10)
	for left := maxSome; ; {
		if t.f == nil {
			if err := t.from(Mark{}); err != nil { // all of it is new
				return false, err
			}
			if t.f == nil {
				return false, nil
			}
		}
		rotated := !same(t.f, t.file) // before reading: then all of it is read
		if err := t.drain(buf, &left, emit); err != nil {
			return false, err
		}
		if left <= 0 {
			return true, nil
		}
		if !rotated || !t.advance(emit) {
			t.emitEnd(emit)
			return false, nil
		}
	}
}

// drain reads to the end of the file, or until nothing is left of the limit.
func (t *Tail) drain(buf []byte, left *int, emit func(Line)) error {
	for *left > 0 {
		n, err := t.f.Read(buf)
		*left -= n
		t.partial = append(t.partial, buf[:n]...)
		t.times.more(t.file, t.offset+int64(len(t.partial)))
		start := 0
		for {
			i := bytes.IndexByte(t.partial[start:], '\n')
			if i < 0 {
				break
			}
			t.line(t.partial[start:start+i], 1, emit)
			start += i + 1
		}
		if len(t.partial)-start >= proc.MaxLine {
			t.line(t.partial[start:], 0, emit)
			start = len(t.partial)
		}
		t.partial = t.partial[:copy(t.partial, t.partial[start:])]
		if err == io.EOF {
			if len(t.partial) == 0 {
				t.marks(t.offset, emit)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// line emits a line, after the marks before it. end is the length of its line end.
func (t *Tail) line(text []byte, end int, emit func(Line)) {
	t.marks(t.offset, emit)
	t.emitEnd(emit)
	t.consume(text, end) // first, because emit may ask for the position after it
	emit(Line{Text: valid(text), Time: t.at, Incarnation: t.incarnation})
}

// consume advances past a line.
func (t *Tail) consume(text []byte, end int) {
	t.offset += int64(len(text) + end)
	t.passed = 0
	t.recent = append(t.recent, text[max(0, len(text)-before):]...)
	if end > 0 {
		t.recent = append(t.recent, '\n')
	}
	t.recent = append(t.recent[:0], t.recent[max(0, len(t.recent)-before):]...)
}

// marks applies the entries up to an offset. It holds back the end of an incarnation for a
// moment, since the next one may have begun already.
func (t *Tail) marks(offset int64, emit func(Line)) {
	for e, ok := t.times.next(offset); ok; e, ok = t.times.next(offset) {
		if e.mark != nil {
			t.mark(e, emit)
		}
		t.hold(e)
	}
}

func (t *Tail) mark(e entry, emit func(Line)) {
	switch e.mark.Event {
	case ended:
		t.emitEnd(emit)
		t.pendingEnd = &Line{
			Time: e.at, Incarnation: e.mark.Incarnation,
			Between: &Between{Ended: e.mark.Incarnation, EndedAt: e.at, How: e.mark.How},
		}
	case began:
		b := &Between{Began: e.mark.Incarnation}
		if t.pendingEnd != nil {
			last := *t.pendingEnd.Between
			b, t.pendingEnd = &last, nil
			b.Began = e.mark.Incarnation
		}
		t.passed = e.at.UnixMilli()
		emit(Line{Time: e.at, Incarnation: e.mark.Incarnation, Between: b})
	}
}

func (t *Tail) emitEnd(emit func(Line)) {
	if t.pendingEnd != nil {
		l := *t.pendingEnd
		t.pendingEnd = nil
		t.passed = l.Time.UnixMilli()
		emit(l)
	}
}

// advance opens the file that follows the one that was read to its end. It may be renamed at any
// moment, and for a moment a name may be missing.
func (t *Tail) advance(emit func(Line)) bool {
	for range 3 {
		for i := 1; i < maxKept; i++ {
			if same(t.f, rotated(t.file, i)) {
				if done, ok := t.open(i-1, i); done {
					return ok
				}
				break // it was rotated again
			}
		}
	}
	if _, ok := t.open(0, -1); ok {
		emit(Line{Text: "[coppice: the log was rotated faster than it could be read]", Time: t.at,
			Incarnation: t.incarnation})
		return true
	}
	return false // removed; the writer will create another one
}

// open continues with a file by its number, if the last file still has the number last. If that
// has changed, done is false. last is negative if the last file is gone.
func (t *Tail) open(i, last int) (done, ok bool) {
	f, err := private.OpenFile(rotated(t.file, i), os.O_RDONLY)
	if err != nil {
		return true, false // does not exist yet
	}
	if last >= 0 && !same(t.f, rotated(t.file, last)) {
		f.Close()
		return false, false
	}
	partial := t.partial
	t.partial = nil
	if err := t.start(f, 0); err != nil {
		return true, false
	}
	t.recent, t.partial = nil, partial
	t.offset -= int64(len(partial)) // partial is not in this file
	return true, true
}

// Rest emits a last line without its end.
func (t *Tail) Rest(emit func(Line)) {
	if len(t.partial) > 0 {
		partial := t.partial
		t.partial = nil
		t.line(partial, 0, emit)
	}
}

func valid(b []byte) string {
	return strings.ToValidUTF8(string(bytes.TrimSuffix(b, []byte("\r"))), "\uFFFD")
}

// same reports whether an open file is the one that has this name.
func same(f *os.File, name string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}
