package server

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// A client that connects during a start is told when the agent runs. It may be the next daemon,
// after the one that asked for the start was killed.
func TestClientDuringStart(t *testing.T) {
	const path = "app/a"
	s := slotFor(t, path)
	starter := client(t, s)
	starter.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	starter.read(func(m *wire.Message) bool { return m.ID == 1 })

	s.records.mu.Lock() // the end of the previous incarnation is being recorded: the start waits for that
	before := time.Now()
	l, err := wire.NewLaunch(runtime.Launch{Path: path, Incarnation: 1, Argv: []string{"/bin/sleep", "1000"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	starter.send(&wire.Message{Type: wire.Start, ID: 2, Incarnation: 1, Launch: l})
	var hello *wire.Message
	other := client(t, s)
	other.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	for id := uint64(1); ; id++ {
		hello = other.read(func(m *wire.Message) bool { return m.ID == id })
		if hello.State.Incarnation == 1 {
			break
		}
		other.send(&wire.Message{Type: wire.Look, ID: id + 1})
	}
	s.records.mu.Unlock()

	if st := hello.State; st.Ready || st.StartedAt.Before(before) {
		t.Errorf("before its process exists: ready %v, started at %v; want not ready, started since %v",
			st.Ready, st.StartedAt, before)
	}
	told := other.read(func(m *wire.Message) bool { return m.Type == wire.Status })
	if st := told.State; !st.Ready || st.Agent.PID == 0 || st.StartedAt.Before(hello.State.StartedAt) {
		t.Errorf("the other client was told %+v; want ready, with a process", st)
	}
	answer := starter.read(func(m *wire.Message) bool { return true })
	if answer.ID != 2 || !answer.State.Ready || answer.State.Agent != told.State.Agent {
		t.Errorf("the first message to the starter is %+v; want the answer", answer)
	}
	other.send(&wire.Message{Type: wire.Kill, ID: 99, Incarnation: 1})
	other.read(func(m *wire.Message) bool { return m.Type == wire.Exited })
	s.records.await(func() {}) // its record is written
}

// slotFor returns an empty slot for an agent, in a directory of the test.
func slotFor(t *testing.T, path string) *slot {
	t.Helper()
	name, err := wire.DirName(path)
	if err != nil {
		t.Fatal(err)
	}
	slots := t.TempDir()
	dir := filepath.Join(slots, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(slots) // the socket is created there
	lock, err := wire.TryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newShim(slots, ".")
	if err != nil {
		t.Fatal(err)
	}
	s := newSlot(p, name, lock)
	s.records.timer = time.NewTimer(time.Hour) // no sync is written after the test
	if err := p.add(s, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// testClient speaks the protocol with a server.
type testClient struct {
	t *testing.T
	c net.Conn
	r *wire.Reader

	slot string
}

// client returns a client that s serves until the test ends.
func client(t *testing.T, s *slot) *testClient {
	t.Helper()
	c, serve := waitingClient(t, s.shim)
	c.slot = s.name
	serve()
	return c
}

// waitingClient returns a client that p serves from the call of serve until the test ends.
func waitingClient(t *testing.T, p *shim) (c *testClient, serve func()) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	var served sync.WaitGroup
	t.Cleanup(func() {
		ends[0].Close()
		served.Wait()
	})
	ends[0].SetDeadline(time.Now().Add(20 * time.Second)) // only a failure takes that long
	return &testClient{t: t, c: ends[0], r: wire.NewReader(ends[0])}, func() {
		served.Go(func() { p.serve(ends[1].(*net.UnixConn)) })
	}
}

func (c *testClient) send(m *wire.Message) {
	c.t.Helper()
	m.Name = cmp.Or(m.Name, c.slot)
	b, err := wire.Encode(m)
	if err == nil {
		_, err = c.c.Write(b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next message that is wanted.
func (c *testClient) read(wanted func(*wire.Message) bool) *wire.Message {
	c.t.Helper()
	for {
		m, err := c.r.Read()
		if err != nil {
			c.t.Fatal(err)
		}
		if wanted(m) {
			return m
		}
		if m.Type == wire.Error {
			c.t.Fatal(m.Failure.Err())
		}
	}
}
