package shim

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// raw connects to the socket of a slot, without the protocol.
func raw(t testing.TB, dir string) *net.UnixConn {
	t.Helper()
	d, err := private.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := net.Dial("unix", "/proc/self/fd/"+strconv.Itoa(int(d.Fd()))+"/"+wire.SocketFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testTimeout))
	return c.(*net.UnixConn)
}

// helloTo is the first message of a client of a slot.
func helloTo(s *slot) string {
	return `{"type":"hello","v":1,"id":1,"name":"` + filepath.Base(s.dir) + `"}`
}

// Whatever comes through the socket, the agent continues and other clients are served.
func TestGarbageOnTheSocket(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	hello := helloTo(s.slot) + "\n"
	for _, c := range []struct {
		name, send string
		answer     string // part of the answer; "" if there need not be one
	}{
		{"nothing", "", ""},
		{"half a line", `{"type":"hel`, "incomplete message"},
		{"http", "GET / HTTP/1.1\r\n\r\n", "not a message"},
		{"binary", "\x00\xff\xfe\n", "not a message"},
		{"not an object", "[1,2]\n", "not a message"},
		{"no hello", `{"type":"kill","incarnation":1}` + "\n", "first message"},
		{"other version", `{"type":"hello","v":99}` + "\n", "version 1 of the protocol, not 99"},
		{"no version", `{"type":"hello"}` + "\n", "version 1 of the protocol, not 0"},
		{"100 MB line", strings.Repeat("x", 100<<20), ""},
		{"100 MB line after hello", hello + strings.Repeat("x", 100<<20), ""},
		{"deep", hello + strings.Repeat("[", 900_000) + "\n", "not a message"},
		{"unknown request", hello + `{"type":"explode","id":2,"incarnation":1}` + "\n", "unknown request"},
		{"old incarnation", hello + `{"type":"kill","id":2,"incarnation":0}` + "\n", "incarnation is over"},
		{"incarnation to come", hello + `{"type":"kill","id":2,"incarnation":2}` + "\n", "incarnation is over"},
		{"start of nothing", hello + `{"type":"start","id":2,"incarnation":2}` + "\n", "without a launch"},
		{"start of another agent", hello + `{"type":"start","id":2,"incarnation":2,"launch":{"Path":"app/b","Incarnation":2}}` + "\n", "is not that of agent"},
		{"negative signal", hello + `{"type":"signal","id":2,"incarnation":1,"signal":-9}` + "\n", "no signal"},
		{"type without being attached", hello + `{"type":"input","id":2,"incarnation":1,"data":"eA=="}` + "\n", "unknown request"},
		{"type while watching", hello + `{"type":"attach","id":2,"incarnation":1}` + "\n" + `{"type":"input","incarnation":1,"data":"eA=="}` + "\n", "client without input"},
		{"bad base64", hello + `{"type":"write","id":2,"incarnation":1,"data":"***"}` + "\n", "not a message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := raw(t, s.slot.dir)
			go func() {
				io.WriteString(conn, c.send) // may fail: the shim hangs up
				conn.CloseWrite()
			}()
			got, err := io.ReadAll(conn)
			if c.answer != "" && !bytes.Contains(got, []byte(c.answer)) {
				t.Errorf("answer %.300q (%v), want %q", got, err, c.answer)
			}
			if err := s.Signal(ctxOf(t), syscall.SIGCONT); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if kB := memory(t, shimOf(s).PID, "Pss"); kB > 48<<10 { // the race detector needs much memory, too
				t.Errorf("the shim holds %d kB", kB)
			}
		})
	}
	if o := s.Observe(); o.Life != runtime.Alive || o.Incarnation != 1 {
		t.Errorf("after all that: %+v", o)
	}
}

func TestTooManyConnections(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, "exec sleep 1000"))
	for range 200 {
		raw(t, s.slot.dir)
	}
	if err := s.Signal(ctxOf(t), syscall.SIGCONT); err != nil {
		t.Errorf("who was there before: %v", err)
	}
}

// Only this user can reach the socket.
func TestModes(t *testing.T) {
	dir := slotsDir(t)
	r := open(t, dir)
	s := start(t, r, sh("app/a", 1, "echo x"))
	wait(t, "the end", s.Done())
	for file, want := range map[string]os.FileMode{
		dir: 0o700, s.slot.dir: 0o700,
		filepath.Join(s.slot.dir, wire.SocketFile): 0o600, filepath.Join(s.slot.dir, wire.LockFile): 0o600,
	} {
		st, err := os.Stat(file)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", file, st.Mode(), err)
		}
	}
}

// The path of the slots may be long, although a socket address has 108 bytes.
func TestLongDirectory(t *testing.T) {
	dir := filepath.Join(slotsDir(t), strings.Repeat("long", 50), strings.Repeat("longer", 40))
	r := open(t, dir)
	start(t, r, sh("app/a", 1, "exec sleep 1000"))
	r.Close()
	r = open(t, dir)
	s := adopt(t, r, "app/a")
	if o := s.Observe(); o.Life != runtime.Alive {
		t.Errorf("%+v", o)
	}
	s.Kill()
	wait(t, "the end", s.Done())
	if err := r.Remove(ctxOf(t), "app/a"); err != nil {
		t.Error(err)
	}
}

// A viewer that does not read delays nothing and is dropped.
func TestSlowViewer(t *testing.T) {
	r := open(t, slotsDir(t))
	l := sh("app/a", 1, `read x; head -c 20000000 /dev/zero | tr '\0' 'x'; echo; echo end; exec sleep 1000`)
	l.Input = true
	s := start(t, r, l)
	stuck, release := io.Pipe() // never read
	defer stuck.Close()
	defer release.Close()
	slow := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctxOf(t))
	go func() { slow <- s.Attach(ctx, runtime.Attachment{Output: release}) }()
	for { // until it watches
		if s.views(t) > 0 {
			break
		}
	}
	if err := s.Write(ctxOf(t), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	fctx, found := context.WithTimeout(context.Background(), testTimeout)
	defer found()
	ended := false
	follow(fctx, s, 0, func(line string) {
		if line == "end" {
			ended = true
			found()
		}
	})
	if !ended {
		t.Error("the output was held up")
	}
	cancel()
	stuck.Close()
	<-slow
}

// views counts the connections of the shim beyond the session's own.
func (ses *session) views(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/" + strconv.Itoa(shimOf(ses).PID) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	sockets := 0
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/" + strconv.Itoa(shimOf(ses).PID) + "/fd/" + fd.Name()); strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return sockets - 2 // the listener and the session
}
