package server

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Requests that wait for an agent hold up others for the same agent only, and neither a look at it nor
// a kill. More than the bound are refused, and the connection, which other agents share, stays.
func TestRequestsBehindOneThatWaits(t *testing.T) {
	const path = "app/a"
	s := slotFor(t, path)
	c := client(t, s)
	c.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	l, err := wire.NewLaunch(runtime.Launch{
		Path: path, Incarnation: 1, Argv: []string{"/bin/sleep", "1000"}, Dir: "/", Input: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.send(&wire.Message{Type: wire.Start, ID: 2, Incarnation: 1, Launch: l})
	c.answer(2)
	const first = 10
	id := uint64(first)
	write := func(n int) {
		c.send(&wire.Message{Type: wire.Write, ID: id, Incarnation: 1, Data: make([]byte, n)})
		id++
	}
	write(wire.MaxData) // fills the pipe
	c.answer(first)
	write(wire.MaxData) // waits
	for range maxRequests + 1 {
		write(1)
	}
	failed := make(map[uint64]error)
	until := func(last func(*wire.Message) bool) {
		t.Helper()
		for {
			m, err := c.r.Read()
			if err != nil {
				t.Fatal(err)
			}
			if m.Type == wire.Error {
				failed[m.ID] = m.Failure.Err()
			}
			if last(m) {
				return
			}
		}
	}
	c.send(&wire.Message{Type: wire.Look, ID: 3})
	until(func(m *wire.Message) bool { return m.ID == 3 })
	if failed[id-1] == nil || failed[first+1] != nil {
		t.Errorf("the last request: %v, the first one: %v; want that the last one is refused",
			failed[id-1], failed[first+1])
	}
	c.send(&wire.Message{Type: wire.Kill, ID: 4, Incarnation: 1})
	until(func(m *wire.Message) bool { return m.Type == wire.Exited })
	if err := failed[first+1]; err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("a kill waited for a write: %v", err)
	}
	s.records.await(func() {}) // its record is written
}
