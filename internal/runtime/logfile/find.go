package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Last reads the last n complete lines of the log, and what comes after them. It reads all lines
// if n is negative.
func Last(file string, n int) (*Tail, error) {
	if n < 0 {
		return From(file, Mark{})
	}
	return last(file, n, math.MaxInt64)
}

// last is Last, limited to a number of bytes of each file.
func last(file string, n int, limit int64) (*Tail, error) {
	t := &Tail{file: file}
	f, err := t.kept(0)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	for i := 1; ; i++ {
		if err != nil {
			return nil, err
		}
		found, offset, e := lastLines(f, n, limit)
		if e != nil {
			f.Close()
			return nil, e
		}
		if found == n || i == maxKept {
			err := t.start(f, offset)
			if err == nil && n == 0 {
				t.skip(func(e entry) bool { return e.offset <= offset })
			}
			return t, err
		}
		older, e := t.kept(i)
		if e != nil {
			return t, t.start(f, 0)
		}
		n -= found
		f.Close()
		f = older
	}
}

// lastLines finds the beginning of the last n complete lines of a file, or counts its lines if
// there are fewer. It examines at most limit bytes.
func lastLines(f *os.File, n int, limit int64) (found int, offset int64, err error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 64<<10)
	ends := 0 // newlines seen
	first := end
	for stop := max(0, end-limit); end > 0; {
		if end <= stop {
			return n, first, nil
		}
		b := buf[:min(int64(len(buf)), end)]
		end -= int64(len(b))
		if _, err := f.ReadAt(b, end); err != nil && err != io.EOF {
			return 0, 0, err
		}
		for i := len(b); ; {
			if i = bytes.LastIndexByte(b[:i], '\n'); i < 0 {
				break
			}
			first = end + int64(i) + 1
			if ends++; ends > n {
				return n, first, nil
			}
		}
	}
	return ends, 0, nil
}

// Since reads what was written from a time on.
func Since(file string, since time.Time) (*Tail, error) {
	since = since.Truncate(time.Millisecond) // as the times of lines are
	t := &Tail{file: file}
	f, err := t.kept(0)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	for i := 1; ; i++ {
		offset, older, err := firstSince(file, f, since)
		if err != nil {
			f.Close()
			return nil, err
		}
		if older && i < maxKept {
			if before, e := t.kept(i); e == nil {
				st, e := before.Stat()
				if e == nil && !st.ModTime().Before(since.Add(-fileLag)) {
					f.Close()
					f = before
					continue
				}
				before.Close()
			}
		}
		err = t.start(f, offset)
		if err == nil {
			t.skip(func(e entry) bool { return e.offset <= offset && e.at.Before(since) })
		}
		return t, err
	}
}

// fileLag is by how much the modification time of a file may be earlier than the last write: some milliseconds on
// Linux, and more in file systems that keep seconds.
const fileLag = 2 * time.Second

// firstSince finds the first line of a file that was written since a time, and reports whether
// the file before it may have some, too. If the file has no times, its modification time stands
// for all lines.
func firstSince(file string, f *os.File, since time.Time) (offset int64, older bool, err error) {
	st, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	if st.ModTime().Before(since.Add(-fileLag)) {
		return st.Size(), false, nil
	}
	times := openTimes(file, f)
	defer times.close()
	older = true
	for {
		for _, e := range times.ahead {
			if !e.at.Before(since) {
				if older { // includes lines without a time before it, and the file before
					return 0, true, nil
				}
				offset, err = lineStart(f, e.offset)
				return offset, false, err
			}
			older = false
		}
		times.ahead = nil
		if !times.read(file) {
			if !older {
				offset = st.Size()
			}
			return offset, older, nil
		}
	}
}

// lineStart returns the beginning of the line at an offset.
func lineStart(f *os.File, offset int64) (int64, error) {
	b := make([]byte, min(offset, proc.MaxLine))
	n, err := f.ReadAt(b, offset-int64(len(b)))
	if err != nil && err != io.EOF {
		return 0, err
	}
	if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 || offset <= proc.MaxLine {
		return offset - int64(len(b)) + int64(i) + 1, nil
	}
	return offset, nil
}
