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

// The index of a log file records when its parts were written, and where incarnations begin and
// end. It is next to the log file and has the file's inode in its name. So it stays with a file
// that is renamed, and does not apply to another file. It is written before the output that it
// describes.
//
// An entry is a line: an offset in the file and a time in Unix milliseconds, both in hex with a
// fixed width, and an optional mark as JSON. A reader skips entries that it cannot parse.
// Without the index there are no times, but nothing else is lost.
const (
	indexName    = "output.times."
	offsetDigits = 10
	timeDigits   = 11
	entrySize    = offsetDigits + 1 + timeDigits

	// indexStep is the precision of the time of a line. Output that comes sooner after an entry
	// has no entry of its own, which bounds the size of an index.
	indexStep = 10 * time.Millisecond
	// maxHow bounds the description of an end, in bytes.
	maxHow = 512
	// maxEntry bounds an entry, in bytes; longer ones are ignored.
	maxEntry = 8 << 10
)

// mark records that an incarnation begins or ends, or continues in another file.
type mark struct {
	Incarnation uint64 `json:"n"`
	Event       string `json:"event,omitempty"` // began, ended; empty if it continues
	How         string `json:"how,omitempty"`   // description of the end
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

// parseEntry parses a line of an index, without its newline.
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
	f    *os.File  // nil if it cannot be written
	last time.Time // time of the last entry
}

// openIndex opens the index of a log file that has this inode and size.
func openIndex(file string, st os.FileInfo) index {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if st.Size() == 0 {
		flags |= os.O_TRUNC // the index of another file, whose inode is reused
	}
	f, err := private.OpenFile(indexFile(file, inode(st)), flags)
	if err != nil {
		return index{}
	}
	if st.Size() > 0 {
		f.WriteString("\n") // the last entry may be incomplete
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

// prune removes the indexes of log files that do not exist.
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

// times reads the part of an open log file's index that is written.
type times struct {
	f       *os.File // nil if there is none
	log     *os.File
	partial []byte
	ahead   []entry // read, but not used yet
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

// more reads the entries up to an offset that are written.
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
	st, err := t.log.Stat() // after reading, since an entry is written before the output that it describes
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
		// An entry beyond the end of the log is damaged, and so is one that goes back.
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

// next returns the next entry up to an offset, if there is one.
func (t *times) next(offset int64) (e entry, ok bool) {
	if len(t.ahead) == 0 || t.ahead[0].offset > offset {
		return e, false
	}
	e = t.ahead[0]
	t.ahead = t.ahead[1:]
	return e, true
}
