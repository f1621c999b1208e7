package tmux

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// However long the keeper of the log takes, the end is reported when all output is in the log.
func TestKeeperSlow(t *testing.T) {
	r := open(t, slotsDir(t))
	s := start(t, r, sh("app/a", 1, `echo up; read x; echo the end; exit 3`))
	until(t, s, "up")
	d, leave, err := s.slot.keeper(ctxOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	keeper := peerOf(t, d.UnixConn)
	if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const busy = 2500 * time.Millisecond // a slow machine
	time.AfterFunc(busy, func() { syscall.Kill(keeper, syscall.SIGCONT) })
	if err := s.Write(ctxOf(t), []byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if e := exit(t, s); code(e) != 3 {
		t.Errorf("exit = %v", e)
	}
	if b, err := os.ReadFile(s.slot.logFile()); err != nil || !strings.Contains(string(b), "the end") {
		t.Errorf("the log at the end: %q, %v", b, err)
	}
}

// peerOf returns the process at the other end of a connection.
func peerOf(t *testing.T, c *net.UnixConn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var who *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return int(who.Pid)
}
