package logfile

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/private"
)

// Mark is a position in a log that can be stored. The zero value is the beginning of the log.
type Mark struct {
	Inode  uint64 `json:"inode,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Before []byte `json:"before,omitempty"` // preceding bytes, because inodes are reused
	// Passed is the time of the last end or beginning of an incarnation at this position that
	// was emitted, in Unix milliseconds; 0 if none was.
	Passed int64 `json:"passed,omitempty"`
}

const before = 32 // bytes

// End returns the current end of the log.
func End(file string) Mark {
	f, err := private.OpenFile(file, os.O_RDONLY)
	if err != nil {
		return Mark{}
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Mark{}
	}
	return Mark{Inode: inode(st), Offset: st.Size(), Before: preceding(f, st.Size())}
}

// Mark returns the position after the last line that was emitted.
func (t *Tail) Mark() Mark {
	if t.f == nil {
		return Mark{}
	}
	offset := max(0, t.offset)
	return Mark{Inode: t.inode, Offset: offset, Before: bytes.Clone(t.recent[max(0, len(t.recent)-int(offset)):]),
		Passed: t.passed}
}

// String returns the mark as a word, for ParseMark.
func (m Mark) String() string {
	return fmt.Sprintf("%x.%x.%x.%s", m.Inode, m.Offset, m.Passed, base64.RawURLEncoding.EncodeToString(m.Before))
}

// ParseMark parses the result of Mark.String.
func ParseMark(text string) (m Mark, err error) {
	fields := strings.Split(text, ".")
	if len(fields) == 4 {
		var errs [4]error
		m.Inode, errs[0] = strconv.ParseUint(fields[0], 16, 64)
		m.Offset, errs[1] = strconv.ParseInt(fields[1], 16, 64)
		m.Passed, errs[2] = strconv.ParseInt(fields[2], 16, 64)
		m.Before, errs[3] = base64.RawURLEncoding.DecodeString(fields[3])
		if errors.Join(errs[:]...) == nil && m.Offset >= 0 && len(m.Before) <= before {
			return m, nil
		}
	}
	return Mark{}, fmt.Errorf("%.100q is not a position in a log", text)
}

// preceding returns the last bytes before an offset.
func preceding(f *os.File, offset int64) []byte {
	b := make([]byte, max(0, min(before, offset)))
	n, _ := f.ReadAt(b, offset-int64(len(b)))
	return b[:n]
}

func inode(st os.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// From continues to read at a mark. If that was rotated away, it starts at the oldest file.
func From(file string, m Mark) (*Tail, error) {
	t := &Tail{file: file}
	return t, t.from(m)
}

func (t *Tail) from(m Mark) error {
	var f *os.File
	for i := range maxKept {
		next, err := t.kept(i)
		if i == 0 && err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil {
			break
		}
		if f != nil {
			f.Close()
		}
		f = next
		st, err := f.Stat()
		if err != nil {
			f.Close()
			return err
		}
		if m.Inode == 0 || inode(st) != m.Inode || st.Size() < m.Offset ||
			!bytes.Equal(preceding(f, m.Offset), m.Before) {
			continue
		}
		if err := t.start(f, m.Offset); err != nil {
			return err
		}
		if m.Passed > 0 {
			t.skip(func(e entry) bool { return e.offset == m.Offset && e.at.UnixMilli() <= m.Passed })
			t.passed = m.Passed
		}
		return nil
	}
	if f == nil {
		return nil
	}
	return t.start(f, 0)
}
