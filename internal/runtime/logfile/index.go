package logfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
)

// The index of a log file says when its parts were written, and where incarnations
// begin and end. It lies next to the file and has the inode of the file in its name,
// so that it stays with it when the file is renamed, and says nothing about another
// one. It is written before what it is about.
//
// An entry is a line: an offset in the file and a time in Unix milliseconds, both in
// hex and of a fixed width, and a mark as JSON where there is one. A reader skips
// what it cannot read: without the index there are no times, and nothing else is lost.
const (
	indexName    = "output.times."
	offsetDigits = 10
	timeDigits   = 11
	entrySize    = offsetDigits + 1 + timeDigits

	// indexStep is how much of the time of a line is not known: output that comes
	// sooner after an entry has none of its own. It bounds the size of an index, too.
	indexStep = 10 * time.Millisecond
	// maxHow bounds how much is kept of how an incarnation ended, in bytes.
	maxHow = 512
	// maxEntry bounds an entry, in bytes; what is longer is none.
	maxEntry = 8 << 10
)

// mark is where an incarnation begins or ends, or where its output goes on in
// another file.
type mark struct {
	Incarnation uint64 `json:"n"`
	Event       string `json:"event,omitempty"` // began, ended; empty: it goes on
	How         string `json:"how,omitempty"`   // it ended
}

const (
	began = "began"
	ended = "ended"
)

// entry is a line of an index.
type entry struct {
	offset int64
	at     time.Time
	mark   *mark
}

func (e entry) append(b []byte) []byte {
	b = fmt.Appendf(b, "%0*x %0*x", offsetDigits, e.offset, timeDigits, max(0, e.at.UnixMilli()))
	if e.mark != nil {
		if data, err := json.Marshal(e.mark); err == nil {
			b = append(append(b, ' '), data...)
		}
	}
	return append(b, '\n')
}

// parseEntry reads a line of an index without its end.
func parseEntry(line []byte) (e entry, ok bool) {
	if len(line) < entrySize || line[offsetDigits] != ' ' {
		return e, false
	}
	offset, err1 := strconv.ParseInt(string(line[:offsetDigits]), 16, 64)
	ms, err2 := strconv.ParseInt(string(line[offsetDigits+1:entrySize]), 16, 64)
	if err1 != nil || err2 != nil || offset < 0 || ms < 0 {
		return e, false
	}
	e = entry{offset: offset, at: time.UnixMilli(ms)}
	if rest := line[entrySize:]; len(rest) > 0 {
		e.mark = new(mark)
		if rest[0] != ' ' || json.Unmarshal(rest[1:], e.mark) != nil || e.mark.Incarnation == 0 {
			return e, false
		}
	}
	return e, true
}

func indexFile(file string, inode uint64) string {
	return filepath.Join(filepath.Dir(file), indexName+strconv.FormatUint(inode, 16))
}

// index writes the index of a log file.
type index struct {
	f    *os.File  // nil: it cannot be written
	last time.Time // of the last entry
}

// openIndex opens the index of a log file that has this inode and size.
func openIndex(file string, st os.FileInfo) index {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if st.Size() == 0 {
		flags |= os.O_TRUNC // that of another file, whose inode is used again
	}
	f, err := private.OpenFile(indexFile(file, inode(st)), flags)
	if err != nil {
		return index{}
	}
	if st.Size() > 0 {
		f.WriteString("\n") // an entry may have been cut
	}
	return index{f: f}
}

func (x *index) put(e entry) {
	if x.f == nil {
		return
	}
	var buf [64]byte
	b := e.append(buf[:0])
	x.last = e.at
	if n, err := x.f.Write(b); err != nil && n > 0 {
		x.f.WriteString("\n")
	}
}

func (x *index) close() {
	if x.f != nil {
		x.f.Close()
		x.f = nil
	}
}

// prune removes the indexes of log files that are gone.
func prune(file string) {
	present := make(map[string]bool)
	for i := range maxKept {
		st, err := os.Lstat(rotated(file, i))
		if err != nil {
			break
		}
		present[filepath.Base(indexFile(file, inode(st)))] = true
	}
	all, _ := os.ReadDir(filepath.Dir(file))
	for _, e := range all {
		if strings.HasPrefix(e.Name(), indexName) && !present[e.Name()] {
			os.Remove(filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
}

// times reads the index of an open log file, as far as it is written.
type times struct {
	f       *os.File // nil: there is none
	log     *os.File
	partial []byte
	ahead   []entry // read, and about what comes
	last    int64   // offset of the last entry that was read
}

func openTimes(file string, log *os.File) *times {
	t := &times{log: log}
	t.open(file)
	return t
}

func (t *times) open(file string) {
	if st, err := t.log.Stat(); err == nil {
		t.f, _ = private.OpenFile(indexFile(file, inode(st)), os.O_RDONLY)
	}
}

func (t *times) close() {
	if t.f != nil {
		t.f.Close()
	}
}

// more reads the entries up to an offset, as far as they are written.
func (t *times) more(file string, offset int64) {
	for len(t.ahead) == 0 || t.ahead[len(t.ahead)-1].offset <= offset {
		if !t.read(file) {
			return
		}
	}
}

// read reads some entries, and reports whether there may be more.
func (t *times) read(file string) bool {
	if t.f == nil {
		if t.open(file); t.f == nil {
			return false
		}
	}
	var buf [8 << 10]byte
	n, _ := t.f.Read(buf[:])
	t.partial = append(t.partial, buf[:n]...)
	st, err := t.log.Stat() // after reading: an entry is there before what it is about
	if n == 0 || err != nil {
		return false
	}
	rest := t.partial
	for {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			break
		}
		rest = after
		// An entry about what is not there is damaged, and so is one that goes back.
		if e, ok := parseEntry(line); ok && e.offset >= t.last && e.offset <= st.Size() {
			t.last = e.offset
			t.ahead = append(t.ahead, e)
		}
	}
	t.partial = t.partial[:copy(t.partial, rest)]
	if len(t.partial) > maxEntry {
		t.partial = t.partial[:0]
	}
	return true
}

// next returns the entry that holds at an offset or before it, if one is left.
func (t *times) next(offset int64) (e entry, ok bool) {
	if len(t.ahead) == 0 || t.ahead[0].offset > offset {
		return e, false
	}
	e = t.ahead[0]
	t.ahead = t.ahead[1:]
	return e, true
}
