package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

// A slot knows how the last incarnations ended, with the reason, whether its shim runs or not.
func TestPast(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	const last = wire.Remembered + 4
	var s *session
	for n := uint64(1); n <= last; n++ {
		s = start(t, r, sh("app/a", n, fmt.Sprintf("echo life %d; exit %d", n, n)))
		wait(t, "the end", s.Done())
	}
	check := func(r *Runtime, first, incarnation uint64) {
		t.Helper()
		list, err := r.List(ctxOf(t))
		if err != nil || len(list) != 1 || list[0].Incarnation != incarnation {
			t.Fatalf("%+v, %v", list, err)
		}
		before := list[0].Before
		if want := int(incarnation - first); len(before) != want {
			t.Fatalf("%d ends are known, want %d: %v", len(before), want, before)
		}
		for i, b := range before {
			var e *proc.ExitError
			if n := first + uint64(i); b.Incarnation != n || !errors.As(b.Exit.Err, &e) || e.Code != int(n) {
				t.Errorf("end %d: %+v, want that of %d", i, b, n)
			}
		}
	}
	check(r, last-wire.Remembered, last)
	r.Close()
	shimOf(s).Signal(syscall.SIGKILL)
	if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	r = open(t, dir)
	check(r, last-wire.Remembered, last)
	start(t, r, sh("app/a", last+1, "exec sleep 1000"))
	check(r, last-wire.Remembered, last+1) // one more, because the record is that of the last one that has ended
}

// A shim that is killed between the fork and its first report leaves its intent. That
// incarnation is lost, not started a second time.
func TestIntention(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
	}{
		{"written", func(t *testing.T, dir string) { intend(t, dir, 2) }},
		{"the first", func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, wire.ExitFile))
			intend(t, dir, 2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := slotsDir(t)
			r := open(t, dir)
			s := start(t, r, sh("app/a", 1, "exit 0"))
			wait(t, "the end", s.Done())
			r.Close()
			shimOf(s).Signal(syscall.SIGKILL)
			if err := shimOf(s).AwaitDeath(ctxOf(t)); err != nil {
				t.Fatal(err)
			}
			c.change(t, s.slot.dir)
			r = open(t, dir)
			if _, err := r.Start(ctxOf(t), sh("app/a", 2, "exec sleep 1000")); !errors.Is(err, runtime.ErrStale) {
				t.Errorf("started once more: %v", err)
			}
			a := adopt(t, r, "app/a")
			wait(t, "the end", a.Done())
			if o := a.Observe(); o.Incarnation != 2 || o.Exit.Kind != supervisor.Lost {
				t.Errorf("%+v, want incarnation 2, lost", o)
			}
			start(t, r, sh("app/a", 3, "exec sleep 1000"))
		})
	}
}

func intend(t *testing.T, dir string, n uint64) {
	t.Helper()
	st, err := wire.ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	st.Incarnation, st.Token, st.Shim.Boot = n, "another", "another"
	writeState(t, dir, st)
}

// writeState writes the state of a slot, as its shim does.
func writeState(t *testing.T, dir string, st *wire.State) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(dir, wire.LockFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := wire.WriteState(lock, st); err != nil {
		t.Fatal(err)
	}
}

// A launch is repeated by its number only if both sides know it; a launch that differs is sent.
func TestAgain(t *testing.T) {
	r := open(t, slotsDir(t))
	life := func(n uint64, script string) {
		t.Helper()
		s := start(t, r, sh("app/a", n, script))
		wait(t, "the end", s.Done())
		lines, err := s.Peek(ctxOf(t), 1)
		if want := fmt.Sprintf("%.3s %d", script[5:], n); err != nil || len(lines) != 1 || lines[0] != want {
			t.Errorf("incarnation %d has said %q, %v; want %q", n, lines, err, want)
		}
	}
	for n := uint64(1); n <= 3; n++ {
		life(n, "echo one $COPPICE_INCARNATION")
	}
	life(4, "echo two $COPPICE_INCARNATION")
	life(5, "echo two $COPPICE_INCARNATION")
	s := start(t, r, sh("app/a", 6, "exec sleep 1000"))
	conn := raw(t, s.slot.dir)
	fmt.Fprintln(conn, helloTo(s.slot))
	s.Kill()
	wait(t, "the end", s.Done())
	for i, c := range []struct {
		send string
		want error
	}{
		{`{"type":"start","id":7,"incarnation":7,"again":5}`, runtime.ErrStale},
		{`{"type":"start","id":8,"incarnation":6,"again":6}`, runtime.ErrStale},
	} {
		fmt.Fprintln(conn, c.send)
		reader := wire.NewReader(conn)
		for {
			m, err := reader.Read()
			if err != nil {
				t.Fatal(err)
			}
			if m.ID == uint64(7+i) {
				if !errors.Is(m.Failure.Err(), c.want) {
					b, _ := json.Marshal(m)
					t.Errorf("%s: %s, want %v", c.send, b, c.want)
				}
				break
			}
		}
	}
}

// The files that an agent finds at its start are those that are left if its shim is killed then:
// they say that it was about to be started, and how the previous one ended.
func TestRecordsBeforeStart(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	name, err := wire.DirName("app/a")
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 20; n++ {
		s := start(t, r, sh("app/a", n, fmt.Sprintf("cd %s/%s; cat lock; echo; cat exit.json 2>&1; exit 1", dir, name)))
		wait(t, "the end", s.Done())
		lines, err := s.Peek(ctxOf(t), 2)
		var st wire.State
		var record wire.Record
		if err != nil || len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &st) != nil || st.Incarnation != n {
			t.Fatalf("incarnation %d: the lock says %q, %v", n, lines, err)
		}
		if n > 1 && (json.Unmarshal([]byte(lines[1]), &record) != nil || record.Incarnation != n-1) {
			t.Fatalf("incarnation %d: the record says %q", n, lines[1])
		}
	}
}

// The end of an incarnation may be reported before the answer to its start. An incarnation
// without a condition has been ready anyway.
func TestEndBeforeAnswer(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	end := wire.NewEnd(supervisor.Exit{Kind: supervisor.Normal}, time.Now())
	for _, ready := range []bool{true, false} {
		ses := newSession(s.slot, 2)
		ses.handle(&wire.Message{Type: wire.Exited, Incarnation: 2, End: end, Ready: ready})
		if err := ses.AwaitReady(ctxOf(t)); (err == nil) != ready {
			t.Errorf("it was ready: %v; AwaitReady: %v", ready, err)
		}
	}
}
