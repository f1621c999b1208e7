package proc

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// The mark is the soft RLIMIT_RTTIME, the processor time that a real-time process may use without
// a pause. It is inherited by fork and kept by execve; everybody can read it in /proc, and only
// programs with real-time priority change it. Marks are so large that they limit nothing: the
// smallest one is 146,000 years.
const (
	markLimit       = unix.RLIMIT_RTTIME
	firstMark  Mark = 1 << 62
	markBits   Mark = firstMark - 1
	limitField      = "Max realtime timeout"
)

// MarkOf returns the mark for a number.
func MarkOf(n uint64) Mark { return firstMark | Mark(n)&markBits }

// pass makes the mark that of the children that this program starts from now on. If the program
// itself is limited they have none.
func (m Mark) pass() {
	var l unix.Rlimit
	if unix.Getrlimit(markLimit, &l) != nil {
		return
	}
	l.Cur = l.Max
	if m != 0 && uint64(m) < l.Max {
		l.Cur = uint64(m)
	}
	unix.Setrlimit(markLimit, &l)
}

// ReadMark returns the mark of a process; 0 if it has none.
func ReadMark(pid int) Mark {
	var buf [2 << 10]byte
	b, err := readProc("/proc/"+strconv.Itoa(pid)+"/limits", buf[:])
	if err != nil {
		return 0
	}
	i := bytes.Index(b, []byte(limitField))
	if i < 0 {
		return 0
	}
	f := bytes.Fields(b[i+len(limitField):])
	if len(f) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(f[0]), 10, 64) // "unlimited" is none
	if err != nil || Mark(n) < firstMark {
		return 0
	}
	return Mark(n)
}
