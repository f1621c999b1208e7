package proc

import (
	"errors"
	"os"
	"testing"
	"time"
)

// This program polls its end of a pipe. That of the child blocks, and is not polled.
func TestPipe(t *testing.T) {
	for _, weRead := range []bool{true, false} {
		ours, theirs, err := openPipe(weRead)
		if err != nil {
			t.Fatal(err)
		}
		if err := ours.SetDeadline(time.Unix(1, 0)); err != nil {
			t.Errorf("the end of this program (reading: %v): %v", weRead, err)
		}
		if err := theirs.SetDeadline(time.Unix(1, 0)); !errors.Is(err, os.ErrNoDeadline) {
			t.Errorf("the end of the child (reading: %v): %v, want %v", !weRead, err, os.ErrNoDeadline)
		}
		if weRead {
			_, err = ours.Read(make([]byte, 1))
		} else {
			_, err = ours.Write([]byte{0})
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after its deadline: %v", err)
		}
		ours.SetDeadline(time.Time{})
		r, w := theirs, ours
		if weRead {
			r, w = ours, theirs
		}
		w.WriteString("x")
		w.Close()
		b := make([]byte, 2)
		if n, err := r.Read(b); n != 1 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		r.Close()
	}
}
