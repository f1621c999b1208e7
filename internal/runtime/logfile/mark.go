package logfile

import (
	"io"
	"os"
	"syscall"
)

// Mark is a place in a log, for another program or another day. The zero
// value is the beginning of all that is there.
type Mark struct {
	Inode  uint64 `json:"inode,omitempty"`
	Offset int64  `json:"offset,omitempty"`
}

// End returns the place where the log ends now.
func End(file string) Mark {
	st, err := os.Stat(file)
	if err != nil {
		return Mark{}
	}
	return Mark{Inode: inode(st), Offset: st.Size()}
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
		if m.Inode != 0 && inode(st) == m.Inode && st.Size() >= m.Offset {
			if _, err := f.Seek(m.Offset, io.SeekStart); err != nil {
				t.Close()
				return nil, err
			}
			break
		}
	}
	return t, nil
}
