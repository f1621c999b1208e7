package toml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"unicode/utf8"
)

// MaxFile is the largest size of a file in bytes.
const MaxFile = 1 << 20

// Source is the text of a file with an index of its lines.
type Source struct {
	Name  string // as errors show it
	Dir   string // directory of the file, absolute; "" if no other file is read
	Order int    // position among the files that were read together
	Data  []byte // without a byte order mark
	lines []int  // offset of the start of each line
}

// NewSource returns a source for data, the content of the file called name.
func NewSource(name string, data []byte) *Source {
	// TOML ignores a byte order mark, and columns do not count it.
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	s := &Source{Name: name, Data: data, lines: []int{0}}
	for i, b := range data {
		if b == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// ErrorAt returns an error at an offset.
func (s *Source) ErrorAt(offset int, key, hint, message string) *Error {
	line, column := s.position(offset)
	return &Error{File: s.Name, Line: line, Column: column, Key: key, Message: message, Hint: hint, order: s.Order}
}

// position returns the line and column of an offset, both counted from 1.
func (s *Source) position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(s.Data))
	line = sort.SearchInts(s.lines, offset+1)
	return line, 1 + utf8.RuneCount(s.Data[s.lines[line-1]:offset])
}

// offset returns the offset of a line and a column in bytes, as the TOML library counts.
func (s *Source) offset(line, column int) int {
	line = min(max(line, 1), len(s.lines))
	return min(s.lines[line-1]+max(column, 1)-1, len(s.Data))
}

// CheckText reports bytes that no TOML file may contain.
func (s *Source) CheckText() *Error {
	if bytes.HasPrefix(s.Data, []byte("\xff\xfe")) || bytes.HasPrefix(s.Data, []byte("\xfe\xff")) {
		return s.ErrorAt(0, "", "save it as UTF-8", "the file is UTF-16, expected UTF-8")
	}
	for i := 0; i < len(s.Data); {
		r, size := utf8.DecodeRune(s.Data[i:])
		if r == utf8.RuneError && size == 1 {
			return s.ErrorAt(i, "", "save it as UTF-8", fmt.Sprintf("the byte 0x%02x is not UTF-8", s.Data[i]))
		}
		if r == 0 {
			return s.ErrorAt(i, "", "remove it", "a zero byte, expected text")
		}
		i += size
	}
	return nil
}

// Advice holds hints for a file that cannot be read, and the page that documents its keys.
type Advice struct{ Missing, Large, Page string }

// Read reads a file and returns its content and its absolute directory. The error is Errors
// unless the directory cannot be determined.
func Read(name string, a Advice) (data []byte, dir string, err error) {
	data, _, e := ReadFile(name, a)
	if e != nil {
		return nil, "", Errors{e}
	}
	absolute, err := filepath.Abs(name)
	if err != nil {
		return nil, "", fmt.Errorf("finding the directory of %s: %w", name, err)
	}
	return data, filepath.Dir(absolute), nil
}

// ReadFile reads a regular file of at most MaxFile bytes. Reading a FIFO could block, and a
// device may never end.
func ReadFile(name string, a Advice) ([]byte, fs.FileInfo, *Error) {
	unreadable := func(err error, hint, format string, args ...any) *Error {
		return &Error{File: name, Message: fmt.Sprintf(format, args...), Hint: hint, Err: err}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, unreadable(err, a.Missing, "no such file, expected the configuration of a project")
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, unreadable(err, "check its permissions with ls -l", "may not be read")
	case err != nil:
		return nil, nil, unreadable(err, "", "cannot be opened: %v", Reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, unreadable(err, "", "cannot be read: %v", Reason(err))
	}
	at := func(hint, format string, args ...any) *Error {
		e := unreadable(nil, hint, format, args...)
		e.Line, e.Column = 1, 1
		return e
	}
	if !info.Mode().IsRegular() {
		return nil, nil, at("", "is a %s, expected a regular file", FileType(info.Mode()))
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, nil, unreadable(err, "", "cannot be read: %v", Reason(err))
	}
	if len(data) > MaxFile {
		return nil, info, tooLarge(name, max(info.Size(), int64(len(data))), a)
	}
	return data, info, nil
}

func tooLarge(name string, size int64, a Advice) *Error {
	return &Error{File: name, Line: 1, Column: 1, Hint: a.Large,
		Message: fmt.Sprintf("the file has %d bytes, expected at most %d", size, MaxFile)}
}

// Reason returns an error without its operation and path, which the message already has.
func Reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// FileType describes the type of a file.
func FileType(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// Absolute returns the absolute form of a path that may be relative to dir.
func Absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
