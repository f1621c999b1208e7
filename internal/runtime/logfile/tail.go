// Package logfile is the output log of a slot: written and rotated by whoever
// holds the agent's output, read from its end and followed by everybody else,
// in another process and without a word between them.
package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

const (
	maxTail = 1 << 20 // bytes of a log file that are looked at for its last lines
	maxPeek = 10_000  // lines
	maxKept = 1000    // rotated files that may be looked for
)

// Peek returns the last n lines of the log, without escape sequences.
func Peek(file string, n int) ([]string, error) {
	t, lines, err := Open(file, n)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if len(t.partial) > 0 && n > 0 {
		lines = append(lines, valid(t.partial))
		lines = lines[max(0, len(lines)-n):]
	}
	for i, l := range lines {
		lines[i] = proc.Plain(l)
	}
	return lines, nil
}

// Kept is Peek of a log that exists; fs.ErrNotExist if it does not.
func Kept(file string, n int) ([]string, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	return Peek(file, n)
}

// Tail reads a log that is being written and rotated.
type Tail struct {
	file    string
	f       *os.File // nil: there is none yet
	partial []byte   // of a line whose end has not been read
}

// Open returns the last n whole lines of the log that ends now, and what
// reads on from there.
func Open(file string, n int) (*Tail, []string, error) {
	t := &Tail{file: file}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	t.f = f
	b, err := lastBytes(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	t.partial = slices.Clone(b[end:])
	n = min(n, maxPeek)
	lines := splitLines(b[:end], n)
	for i := 1; len(lines) < n && i < maxKept; i++ {
		old, err := os.Open(t.name(i))
		if err != nil {
			break
		}
		b, err := lastBytes(old)
		old.Close()
		if err != nil {
			break
		}
		lines = append(splitLines(b, n-len(lines)), lines...)
	}
	return t, lines, nil
}

// lastBytes reads the end of a file, from the beginning of a line where it is cut.
func lastBytes(f *os.File) ([]byte, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-maxTail)
	b := make([]byte, size-from)
	n, err := f.ReadAt(b, from)
	if err != nil && err != io.EOF {
		return nil, err
	}
	b = b[:n]
	if from > 0 {
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	return b, nil
}

// splitLines returns the last n lines of b.
func splitLines(b []byte, n int) []string {
	if n <= 0 {
		return nil
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return nil
	}
	all := bytes.Split(b, []byte("\n"))
	all = all[max(0, len(all)-n):]
	lines := make([]string, len(all))
	for i, l := range all {
		lines[i] = valid(l)
	}
	return lines
}

func valid(b []byte) string {
	return strings.ToValidUTF8(string(bytes.TrimSuffix(b, []byte("\r"))), "\uFFFD")
}

func (t *Tail) name(i int) string {
	if i == 0 {
		return t.file
	}
	return fmt.Sprintf("%s.%d", t.file, i)
}

// Close lets go of the file.
func (t *Tail) Close() {
	if t.f != nil {
		t.f.Close()
	}
}

// Next passes on the lines that have come since.
func (t *Tail) Next(emit func(string)) error {
	buf := make([]byte, 32<<10)
	for {
		if t.f == nil {
			f, err := os.Open(t.file)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			t.f = f
		}
		rotated := !same(t.f, t.file) // before reading: then what is read is all of it
		if err := t.drain(buf, emit); err != nil {
			return err
		}
		if !rotated {
			return nil
		}
		if !t.advance(emit) {
			return nil
		}
	}
}

func (t *Tail) drain(buf []byte, emit func(string)) error {
	for {
		n, err := t.f.Read(buf)
		t.partial = append(t.partial, buf[:n]...)
		start := 0
		for {
			i := bytes.IndexByte(t.partial[start:], '\n')
			if i < 0 {
				break
			}
			emit(valid(t.partial[start : start+i]))
			start += i + 1
		}
		t.partial = t.partial[:copy(t.partial, t.partial[start:])]
		if len(t.partial) >= proc.MaxLine {
			emit(valid(t.partial))
			t.partial = t.partial[:0]
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// advance opens the file that follows the one that was read to its end.
func (t *Tail) advance(emit func(string)) bool {
	for i := 1; i < maxKept; i++ {
		if _, err := os.Lstat(t.name(i)); err != nil {
			break
		}
		if same(t.f, t.name(i)) {
			return t.open(i - 1)
		}
	}
	if t.open(0) {
		emit("[coppice: the log was rotated faster than it could be read]")
		return true
	}
	return false // removed; who writes it will make another one
}

func (t *Tail) open(i int) bool {
	f, err := os.Open(t.name(i))
	if err != nil {
		return false
	}
	t.f.Close()
	t.f = f
	return true
}

// Rest passes on a last line without end.
func (t *Tail) Rest(emit func(string)) {
	if len(t.partial) > 0 {
		emit(valid(t.partial))
		t.partial = nil
	}
}

// same reports whether an open file is the one that has this name.
func same(f *os.File, name string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}
