package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the files that a client has passed and not used.
const maxFiles = 4

// fileReader reads a connection on which files are passed.
type fileReader struct {
	c     *net.UnixConn
	oob   [64]byte // holds more files than maxFiles
	files []*os.File
}

// Read implements io.Reader.
func (r *fileReader) Read(p []byte) (int, error) {
	n, size, _, _, err := r.c.ReadMsgUnix(p, r.oob[:])
	switch {
	case err != nil:
		return 0, err
	case size > 0:
		if err := r.add(r.oob[:size]); err != nil {
			return 0, err
		}
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// add keeps the files in control messages.
func (r *fileReader) add(oob []byte) error {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for i := range all {
		fds, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			return err
		}
		for _, fd := range fds {
			r.files = append(r.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	if len(r.files) > maxFiles {
		return fmt.Errorf("more than %d files", maxFiles)
	}
	return nil
}

// take returns the file of a Serve, the lock of the slot. A file comes with the first byte of its
// message or earlier, so that of the next Serve may be there, too.
func (r *fileReader) take() (*os.File, error) {
	if len(r.files) == 0 {
		return nil, errors.New("a slot comes with its lock")
	}
	lock := r.files[0]
	r.files = r.files[1:]
	return lock, nil
}

func (r *fileReader) close() {
	for _, f := range r.files {
		f.Close()
	}
	r.files = nil
}
