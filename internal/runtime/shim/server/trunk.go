package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// A trunk is a connection to the shim itself, by which it gets slots.

// serveTrunk handles one client of the shim.
func (p *shim) serveTrunk(uc *net.UnixConn) {
	if err := wire.CheckClient(uc, p.dir); err != nil {
		uc.Close()
		return
	}
	c, err := newConn(uc)
	if err != nil {
		uc.Close()
		return
	}
	p.mu.Lock()
	if p.closing || len(p.trunks) >= maxConns {
		p.mu.Unlock()
		uc.Close()
		return
	}
	p.trunks[c] = struct{}{}
	p.mu.Unlock()
	go c.write()

	files := &fileReader{c: uc}
	err = p.handleTrunk(c, files)
	files.close()
	if !errors.Is(err, io.EOF) {
		c.answer(&wire.Message{}, nil, err)
	}
	c.send(nil) // the writer closes the connection after all answers
	<-c.gone
	p.mu.Lock()
	delete(p.trunks, c)
	p.closeIfUnused()
	p.mu.Unlock()
	p.releaseMemory()
}

// handleTrunk answers requests until the connection ends. The error is never nil.
func (p *shim) handleTrunk(c *conn, files *fileReader) error {
	r := wire.NewReader(files)
	m, err := c.readHello(r)
	if err != nil {
		return err
	}
	p.mu.Lock()
	st := wire.State{Version: wire.Version, Shim: p.self, Restricts: true, Confines: true}
	hello := &wire.Message{Type: wire.Status, ID: m.ID, State: &st, Key: p.key, Slots: len(p.slots)}
	b, err := wire.Encode(hello)
	if err == nil {
		c.send(b) // before a slot is left, which is told after this
	}
	p.mu.Unlock()
	for err == nil {
		if m, err = r.Read(); err == nil {
			c.answer(m, nil, p.handle(m, files))
		}
	}
	return err
}

func (p *shim) handle(m *wire.Message, files *fileReader) error {
	switch m.Type {
	case wire.Look:
		p.mu.Lock()
		defer p.mu.Unlock()
		if m.Name != "" && p.slots[m.Name] == nil {
			return wire.ErrNotServed
		}
		return nil
	case wire.Serve:
		lock, conn, err := files.take()
		if err != nil {
			return err
		}
		if err := p.serve(m.Name, m.Most, lock, conn); err != nil {
			lock.Close()
			conn.Close()
			return err
		}
		return nil
	case wire.Wake:
		p.restoreFiles()
		return nil
	}
	return fmt.Errorf("unknown request %.40q", m.Type)
}

// maxFiles bounds the files that a client has passed and not used.
const maxFiles = 4

// fileReader reads a connection on which files are passed.
type fileReader struct {
	c     *net.UnixConn
	files []*os.File
}

// Read implements io.Reader.
func (r *fileReader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, size, _, _, err := r.c.ReadMsgUnix(p, oob)
	if size > 0 {
		if err := r.add(oob[:size]); err != nil {
			return 0, err
		}
	}
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
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

// take returns the files of a Serve: the lock of the slot, and a connection.
func (r *fileReader) take() (lock *os.File, conn *net.UnixConn, err error) {
	if len(r.files) != 2 {
		r.close()
		return nil, nil, errors.New("a slot needs its lock and a connection")
	}
	lock, socket := r.files[0], r.files[1]
	r.files = nil
	conn, err = toConn(socket)
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	return lock, conn, nil
}

func (r *fileReader) close() {
	for _, f := range r.files {
		f.Close()
	}
	r.files = nil
}

// toConn makes a file, which it closes, a connection.
func toConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("a file that is not a connection: %w", err)
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("a connection that is not of a unix socket")
	}
	return uc, nil
}
