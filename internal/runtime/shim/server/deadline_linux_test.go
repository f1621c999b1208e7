package server

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/deadline"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// A start that has passed its check before the deadline, and gets to its process after it, is refused.
func TestDeadlineDuringStart(t *testing.T) {
	const path = "app/a"
	s := slotFor(t, path)
	file := filepath.Join(t.TempDir(), "deadline")
	w, err := deadline.NewWriter(file)
	if err != nil {
		t.Fatal(err)
	}
	now, err := deadline.Now()
	if err != nil {
		t.Fatal(err)
	}
	until := now.Add(500 * time.Millisecond)
	if err := w.Move(until); err != nil {
		t.Fatal(err)
	}
	starter := client(t, s)
	starter.send(&wire.Message{Type: wire.Hello, V: wire.Version, ID: 1})
	starter.read(func(m *wire.Message) bool { return m.ID == 1 })
	if err := s.shim.watchDeadline(file); err != nil {
		t.Fatal(err)
	}
	defer s.shim.watcher().Close()

	s.records.mu.Lock() // the start waits for the record of the incarnation before it
	l, err := wire.NewLaunch(runtime.Launch{Path: path, Incarnation: 1, Argv: []string{"/bin/sleep", "1000"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	starter.send(&wire.Message{Type: wire.Start, ID: 2, Incarnation: 1, Launch: l})
	for s.running() == nil {
		<-time.After(time.Millisecond)
	}
	deadline.Wait(nil, until)
	s.records.mu.Unlock()
	answer := starter.read(func(m *wire.Message) bool { return m.ID == 2 })
	if err := answer.Failure.Err(); !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("the start: %v", err)
	}
	s.records.await(func() {})
	if r, err := wire.ReadRecord(s.dir); err != nil || !errors.Is(r.End.Exit().Err, runtime.ErrFenced) {
		t.Errorf("the record: %+v, %v", r, err)
	}
	if err := w.Move(until.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	starter.send(&wire.Message{Type: wire.Start, ID: 3, Incarnation: 2, Launch: again(t, l, 2)})
	if m := starter.read(func(m *wire.Message) bool { return m.ID == 3 }); m.State == nil {
		t.Errorf("the start after that: %v", m.Failure.Err())
	}
	starter.send(&wire.Message{Type: wire.Kill, ID: 4, Incarnation: 2})
	starter.read(func(m *wire.Message) bool { return m.Type == wire.Exited })
	s.records.await(func() {})
}

// again returns a launch with another number.
func again(t *testing.T, l *wire.Launch, incarnation uint64) *wire.Launch {
	t.Helper()
	next, err := wire.NewLaunch(wire.Again(l.Unpack(), incarnation, ""))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestDeadlineInARelativeFile(t *testing.T) {
	t.Parallel()
	if err := new(shim).watchDeadline("deadline"); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("%v", err)
	}
}
