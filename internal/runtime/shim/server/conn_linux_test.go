package server

import (
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// The writer of a connection may be awake while the reader makes the connection one of a view or a listener: a message
// of before may have been more than the socket took. The race detector sees whether they agree.
func TestViewsBeginWhileTheWriterIsAwake(t *testing.T) {
	const path = "app/a"
	s := slotFor(t, path)
	first := client(t, s)
	first.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	l, err := wire.NewLaunch(runtime.Launch{Path: path, Incarnation: 1, Argv: []string{"/bin/sleep", "1000"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	first.send(&wire.Message{Type: wire.Start, ID: 2, Incarnation: 1, Launch: l})
	first.answer(2)
	wakeAll := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.nudge()
		}
	}
	for _, request := range []string{wire.Follow, wire.Unfinished, wire.Attach, wire.Listen} {
		for range 20 {
			c := client(t, s)
			c.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
			c.answer(1)
			wakeAll()
			c.send(&wire.Message{Type: request, ID: 2, Incarnation: 1})
			if m := c.answer(2); m.Type != wire.OK {
				t.Errorf("%s: %s, %v", request, m.Type, m.Failure.Err())
			}
			c.c.Close()
		}
	}
	first.send(&wire.Message{Type: wire.Kill, ID: 3, Incarnation: 1})
	first.read(func(m *wire.Message) bool { return m.Type == wire.Exited })
	s.records.await(func() {}) // its record is written
}

// A slot that the shim is leaving gets no listener: nothing would end that.
func TestNoListenerOfASlotThatIsLeft(t *testing.T) {
	s := slotFor(t, "app/a")
	c := client(t, s)
	c.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	c.answer(1)
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	c.send(&wire.Message{Type: wire.Listen, ID: 2})
	if m := c.answer(2); m.Type != wire.Error || !errors.Is(m.Failure.Err(), wire.ErrNotServed) {
		t.Errorf("%s, %v", m.Type, m.Failure.Err())
	}
	if err := s.quit(); err != nil {
		t.Error(err)
	}
	<-s.gone
}
