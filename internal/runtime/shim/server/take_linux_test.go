package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// emptyShim returns a shim without slots, in a directory of the test with slots that it may get.
func emptyShim(t *testing.T, slots ...string) *shim {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range slots {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := newShim(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range p.all() {
			s.mu.Lock()
			s.linger.Stop()
			s.mu.Unlock()
		}
	})
	return p
}

// give sends the lock of a slot.
func (c *testClient) give(id uint64, dir, name string) {
	c.t.Helper()
	lock, err := wire.TryLock(filepath.Join(dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	if lock == nil {
		c.t.Fatalf("slot %s is locked", name)
	}
	defer lock.Close()
	b, err := wire.Encode(&wire.Message{Type: wire.Serve, ID: id, Name: name, Most: 32})
	if err == nil {
		err = wire.SendFiles(c.c.(*net.UnixConn), b, []*os.File{lock})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// answer returns the answer to a request.
func (c *testClient) answer(id uint64) *wire.Message {
	c.t.Helper()
	return c.read(func(m *wire.Message) bool { return m.ID == id })
}

// Slots that several starts give to a shim at once come with their locks, wherever a read ends: it
// may return the locks of two, with the rest of the first message and the second one.
func TestSeveralSlotsAtOnce(t *testing.T) {
	names := []string{"a", "b"}
	p := emptyShim(t, names...)
	c, serve := waitingClient(t, p)
	const firstRead = 1 << 10 // the size of the reader's buffer
	padding := &wire.Message{Type: wire.Hello, V: wire.Version, ID: 1}
	b, err := wire.Encode(padding)
	if err != nil {
		t.Fatal(err)
	}
	padding.Token = strings.Repeat("x", firstRead-len(b)-30)
	c.send(padding)
	for i, name := range names {
		c.give(uint64(i+2), p.dir, name)
	}
	serve()
	for i, name := range names {
		if m := c.answer(uint64(i + 2)); m.Type != wire.Status {
			t.Errorf("slot %s: %s, %v", name, m.Type, m.Failure.Err())
		}
	}
}

// A shim that cannot serve a slot does not keep its lock.
func TestSlotThatCannotBeServed(t *testing.T) {
	p := emptyShim(t, "a")
	c, serve := waitingClient(t, p)
	serve()
	c.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	blocked := filepath.Join(p.dir, "a", wire.SocketFile)
	if err := os.MkdirAll(filepath.Join(blocked, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.give(2, p.dir, "a")
	if m := c.answer(2); m.Type != wire.Error {
		t.Errorf("a slot without a socket: %s", m.Type)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	c.give(3, p.dir, "a")
	if m := c.answer(3); m.Type != wire.Status {
		t.Errorf("then: %s, %v", m.Type, m.Failure.Err())
	}
}

// A connection keeps nothing of the slots that the shim has left, of which a daemon gives it one for
// each job.
func TestNothingIsKeptOfLeftSlots(t *testing.T) {
	const n = 20
	p := emptyShim(t, "kept")
	c := &conn{
		shim: p, wake: make(chan struct{}, 1), gone: make(chan struct{}), slots: make(map[*slot]*requests),
		unsent: []byte("\n"), // so that nothing is written
	}
	serve := func(name string) {
		t.Helper()
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := wire.TryLock(name)
		if err != nil {
			t.Fatal(err)
		}
		files := &fileReader{files: []*os.File{lock}}
		c.handle(&wire.Message{Type: wire.Serve, Name: name, Most: n}, files)
	}
	serve("kept")
	for i := range n {
		name := fmt.Sprint("job", i)
		serve(name)
		s := p.slot(name)
		s.mu.Lock()
		s.linger.Stop()
		s.closing = true
		s.mu.Unlock()
		s.leave()
	}
	if len(c.slots) > 2 {
		t.Errorf("it has %d slots, the shim %d", len(c.slots), len(p.all()))
	}
}
