//go:build !linux

package proc

import "os"

func openPipe(weRead bool) (ours, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	if weRead {
		return r, w, err
	}
	return w, r, err
}

func openNull() (*os.File, error) { return os.Open(os.DevNull) }
