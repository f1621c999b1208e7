package logfile

import (
	"bytes"
	"io"
	"os"
	"syscall"
)

// Mark is a place in a log, for another program or another day. The zero
// value is the beginning of all that is there.
type Mark struct {
	Inode  uint64 `json:"inode,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Before []byte `json:"before,omitempty"` // what precedes it: inodes are used again
}

const before = 32 // bytes

// End returns the place where the log ends now.
func End(file string) Mark {
	f, err := os.Open(file)
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

// From reads on from a mark. What was rotated away since is skipped.
func From(file string, m Mark) (*Tail, error) {
	t := &Tail{file: file}
	for i := range maxKept {
		f, err := os.Open(t.name(i))
		if err != nil {
			break
		}
		t.Close()
		t.f = f
		st, err := f.Stat()
		if err != nil {
			t.Close()
			return nil, err
		}
		if m.Inode != 0 && inode(st) == m.Inode && st.Size() >= m.Offset && bytes.Equal(preceding(f, m.Offset), m.Before) {
			if _, err := f.Seek(m.Offset, io.SeekStart); err != nil {
				t.Close()
				return nil, err
			}
			break
		}
	}
	return t, nil
}
